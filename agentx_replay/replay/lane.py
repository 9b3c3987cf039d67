"""One lane: the play it holds, and the plays it holds one after another. No clock, no wire."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agentx_replay.plan.graph import StepId
from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.replay.play import Play
from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, PromptSource
from agentx_replay.replay.sent_blocks import SentBlocks
from agentx_replay.replay.timers import TimerGroup, TimerQueue

PromptSources = Callable[[PlannedPlay, int, int], PromptSource]
"""Makes the prompts of a play, given the play, its lane and its ordinal."""


@dataclass(frozen=True, slots=True)
class LaneContext:
    """What all lanes of a point share. ``run_id`` sets this run's requests apart from another's
    at the server.
    """

    plan: Plan
    prompt_sources: PromptSources
    run_id: str
    timers: "TimerQueue[tuple[Lane, StepId]]"


class Lane:
    """A unit of concurrency: its slot is held until a play's whole tree has drained."""

    def __init__(self, context: LaneContext, index: int, now_ns: int) -> None:
        self._context = context
        self.index = index
        self.ordinal = -1
        self.warmup_issued = 0
        self.next_play(now_ns)

    def next_play(self, now_ns: int) -> None:
        """Put the lane's next session on; the first starts at t*, later ones at request 0."""
        context = self._context
        self.ordinal += 1
        self.planned = context.plan.play(self.index, self.ordinal)
        self.play = Play(self.planned.graph, self.planned.start)
        self.prompts = context.prompt_sources(self.planned, self.index, self.ordinal)
        self.timers: TimerGroup[tuple[Lane, StepId]] = TimerGroup()
        self.play_id = f"{context.run_id}-c{context.plan.concurrency}-l{self.index}-p{self.ordinal}"
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

    def stream_id(self, stream: int) -> str:
        return f"{self.play_id}-s{stream}"

    def composing(self, step_id: StepId) -> Callable[[], int]:
        """Return what makes the bytes of a step's prompt ahead of its dispatch."""
        request = self.play.step(step_id).request
        return partial(self.prompts.compose, step_id.stream, request)

    def dispatch(self, step_id: StepId, phase: Phase, intended_start_ns: int) -> Dispatch:
        """Return the request of a step as it goes out now; warm-up asks for one token."""
        step = self.play.step(step_id)
        request = step.request
        stream_id = self.stream_id(step_id.stream)
        primer = "-primer" if phase is Phase.PRIMER else ""
        prompt = self.prompts.prompt(step_id.stream, request)
        kept = self._sent_blocks.send(step_id.stream, prompt.block_ids)
        skipped_ns = self._skipped_ns()
        self._sent += 1
        self.in_flight += 1
        return Dispatch(
            request_id=f"{stream_id}-t{step_id.turn}{primer}",
            play_id=self.play_id,
            stream_id=stream_id,
            concurrency=self._context.plan.concurrency,
            lane=self.index,
            ordinal=self.ordinal,
            session_id=self.planned.session.id,
            stream=step_id.stream,
            turn=step_id.turn,
            request_index=request.index,
            phase=phase,
            intended_start_ns=intended_start_ns,
            gap_s=step.gap_s,
            recorded_input_tokens=request.input_tokens,
            recorded_output_tokens=request.output_tokens,
            shared_blocks=request.known_blocks,
            max_tokens=max(1, request.output_tokens) if phase is Phase.WINDOW else 1,
            prompt=prompt,
            play_request=self._sent - 1,
            kept_blocks=kept.play_blocks,
            stream_kept_blocks=kept.stream_blocks,
            skipped_ns=skipped_ns - self._skipped_at_end_ns.get(step_id.stream, skipped_ns),
            parent_stream_id=self._parent_stream_id(step_id.stream),
        )

    def _parent_stream_id(self, stream: int) -> str | None:
        """Return who spawned a stream; the main stream where it starts with the play."""
        spawn = self.planned.graph.streams[stream].spawn
        if spawn is None:
            return None
        return self.stream_id(0 if spawn.after is None else spawn.after.stream)

    def returned(self, step_id: StepId, now_ns: int) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self.idle_since_ns = now_ns
        self._skipped_at_end_ns[step_id.stream] = self._skipped_ns()

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
            ordinal=self.ordinal,
            session_id=self.planned.session.id,
            t_star_s=self.planned.start.t_star_s,
            start_ns=self._start_ns,
            end_ns=end_ns,
            requests_sent=self._sent,
            requests_skipped=sum(self.planned.start.turns),
            system_skipped_s=skipped_ns / 1e9,
            tree_skipped_s=self.timers.skipped_ns / 1e9,
        )
