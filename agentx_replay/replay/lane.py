"""One lane: the play it holds, and the plays it holds one after another. No clock, no wire."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agentx_replay.plan.graph import TurnId
from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.replay.play import Play
from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, PromptSource
from agentx_replay.replay.sent_blocks import SentBlocks
from agentx_replay.replay.timers import TimerGroup, TimerQueue
from agentx_replay.units import NS_PER_S

PromptSources = Callable[[PlannedPlay, int, int], PromptSource]
"""Makes the prompts of a play, given the play, its lane and its play number."""


@dataclass(frozen=True, slots=True)
class LaneContext:
    """What all lanes of a point share. ``run_id`` sets this run's requests apart from another's
    at the server.
    """

    plan: Plan
    prompt_sources: PromptSources
    run_id: str
    timers: "TimerQueue[tuple[Lane, TurnId]]"


class Lane:
    """A unit of concurrency: its slot is held until a play's whole tree has drained."""

    def __init__(self, context: LaneContext, index: int, now_ns: int) -> None:
        self._context = context
        self.index = index
        self.play_number = -1
        self.warmup_issued = 0
        self.next_play(now_ns)

    def next_play(self, now_ns: int) -> None:
        """Put the lane's next session on; the first starts at t*, later ones at request 0."""
        context = self._context
        self.play_number += 1
        self.planned = context.plan.play(self.index, self.play_number)
        self.play = Play(self.planned.graph, self.planned.start)
        self.prompts = context.prompt_sources(self.planned, self.index, self.play_number)
        self.timers: TimerGroup[tuple[Lane, TurnId]] = TimerGroup()
        self.play_id = (
            f"{context.run_id}-c{context.plan.concurrency}-l{self.index}-p{self.play_number}"
        )
        self.in_flight = 0
        self.idle_since_ns = now_ns
        self._start_ns = now_ns
        self._system_skipped_before_ns = context.timers.skipped_ns
        self._sent = 0
        self._sent_blocks = SentBlocks()
        self._skipped_at_end_ns: dict[int, int] = {}

    def own_time_ns(self, wall_ns: int) -> int:
        """Return wall time in the play's own time, in which skipped seconds have passed."""
        return self._context.timers.group_time_ns(self.timers, wall_ns)

    def conversation_id(self, conversation: int) -> str:
        return f"{self.play_id}-s{conversation}"

    def composing(self, turn_id: TurnId) -> Callable[[], int]:
        """Return what makes the bytes of a turn's prompt ahead of its dispatch."""
        request = self.play.turn(turn_id).request
        return partial(self.prompts.compose, turn_id.conversation, request)

    def dispatch(self, turn_id: TurnId, phase: Phase, intended_start_ns: int) -> Dispatch:
        """Return the request of a turn as it goes out now; warm-up asks for one token."""
        turn = self.play.turn(turn_id)
        request = turn.request
        conversation_id = self.conversation_id(turn_id.conversation)
        primer = "-primer" if phase is Phase.PRIMER else ""
        prompt = self.prompts.prompt(turn_id.conversation, request)
        kept = self._sent_blocks.send(turn_id.conversation, prompt.block_ids)
        skipped_ns = self._skipped_ns()
        self._sent += 1
        self.in_flight += 1
        return Dispatch(
            request_id=f"{conversation_id}-t{turn_id.number}{primer}",
            play_id=self.play_id,
            conversation_id=conversation_id,
            concurrency=self._context.plan.concurrency,
            lane=self.index,
            play_number=self.play_number,
            session_id=self.planned.session.id,
            conversation=turn_id.conversation,
            turn=turn_id.number,
            request_index=request.index,
            phase=phase,
            intended_start_ns=intended_start_ns,
            gap_s=turn.gap_s,
            recorded_input_tokens=request.input_tokens,
            recorded_output_tokens=request.output_tokens,
            shared_blocks=request.known_blocks,
            max_tokens=max(1, request.output_tokens) if phase is Phase.WINDOW else 1,
            prompt=prompt,
            play_request=self._sent - 1,
            kept_blocks=kept.play_blocks,
            conversation_kept_blocks=kept.conversation_blocks,
            skipped_ns=skipped_ns - self._skipped_at_end_ns.get(turn_id.conversation, skipped_ns),
            parent_conversation_id=self._parent_conversation_id(turn_id.conversation),
        )

    def _parent_conversation_id(self, conversation: int) -> str | None:
        """Return who spawned a conversation; the main one if it starts with the play."""
        spawn = self.planned.graph.conversations[conversation].spawn
        if spawn is None:
            return None
        return self.conversation_id(0 if spawn.after is None else spawn.after.conversation)

    def returned(self, turn_id: TurnId, now_ns: int) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self.idle_since_ns = now_ns
        self._skipped_at_end_ns[turn_id.conversation] = self._skipped_ns()

    def _skipped_ns(self) -> int:
        """Return what idle caps have skipped for this play and for everybody so far."""
        return self.own_time_ns(0)

    def record(self, end_ns: int | None) -> PlayRecord:
        """Return the record of the play, drained at ``end_ns`` or still live (None)."""
        skipped_ns = self._context.timers.skipped_ns - self._system_skipped_before_ns
        return PlayRecord(
            play_id=self.play_id,
            concurrency=self._context.plan.concurrency,
            lane=self.index,
            play_number=self.play_number,
            session_id=self.planned.session.id,
            t_star_s=self.planned.start.t_star_s,
            start_ns=self._start_ns,
            end_ns=end_ns,
            requests_sent=self._sent,
            requests_skipped=sum(self.planned.start.turns),
            system_skipped_s=skipped_ns / NS_PER_S,
            session_skipped_s=self.timers.skipped_ns / NS_PER_S,
        )
