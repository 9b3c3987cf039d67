"""The measured window: timers, idle caps, recycling, and the drain after it.

From the barrier each conversation resumes at its recorded offset from t*, all shifted so that the
first fires at once; after that, recorded gaps count from live ends. When the window closes nothing
new starts; what is in flight drains for a grace and is then cut.
"""

import heapq
import math
from dataclasses import dataclass, field, replace

from agentx_replay.plan.graph import TurnId
from agentx_replay.reason import Reason
from agentx_replay.replay.idle import WorkerState, idle_since_ns, session_shift_ns
from agentx_replay.replay.lane import Lane
from agentx_replay.replay.peers import Peers
from agentx_replay.replay.play import Due
from agentx_replay.replay.ports import Dispatch, Phase, Response, Status
from agentx_replay.replay.timers import Alarm, TimerGroup, TimerQueue
from agentx_replay.replay.traffic import Traffic
from agentx_replay.scenario import Scenario
from agentx_replay.units import NS_PER_S

PREPARE_AHEAD_NS = 500_000_000
"""How long before its timer a conversation's connection is seen to (metrics.md), and its prompt
composed: a thousand prompts of 60 kB take 0.2 s."""


INTERRUPTED = Reason("run-interrupted", "interrupted")


@dataclass(frozen=True, slots=True)
class WindowResult:
    """When the window opened, closed and had drained, in ns; why it closed early, if it did."""

    open_ns: int
    close_ns: int
    drained_ns: int
    nominal_close_ns: int
    system_skipped_s: float
    stopped: Reason | None = None

    def at_clock(self, ahead_ns: int) -> "WindowResult":
        """Return the result by a clock that is ``ahead_ns`` ahead of its own."""
        return replace(
            self,
            open_ns=self.open_ns + ahead_ns,
            close_ns=self.close_ns + ahead_ns,
            drained_ns=self.drained_ns + ahead_ns,
            nominal_close_ns=self.nominal_close_ns + ahead_ns,
        )


@dataclass(frozen=True, slots=True)
class ResumeOffset:
    """How long after t* a head starts in the recording, and whether a join holds it."""

    turn: TurnId
    offset_s: float
    joining: bool


def resume_offsets(lane: Lane) -> list[ResumeOffset]:
    """Return the offsets of the lane's heads: from t*, or from the main conversation's start for a
    play begun in the warm-up.
    """
    planned = lane.planned
    t_star_s = planned.start.t_star_s
    origin_s = planned.graph.conversations[0].turns[0].start_s if t_star_s is None else t_star_s
    return [
        ResumeOffset(
            head.turn,
            max(0.0, lane.play.turn(head.turn).start_s - origin_s),
            head.joining,
        )
        for head in lane.play.heads()
    ]


def earliest_offset_s(lanes: list[Lane]) -> float:
    """Return the least offset of a head that no join holds, infinite where there is none.

    A head held only by order across conversations takes part (so does it in agentx-harness 1.0.12),
    and then the first request may fire after 0.
    """
    offsets = (offset for lane in lanes for offset in resume_offsets(lane))
    return min((offset.offset_s for offset in offsets if not offset.joining), default=math.inf)


@dataclass(slots=True)
class _LeftIdle:
    """How this worker's lanes last stopped being idle: when, when the next timer was due before
    any cap moved it, and the trees that their cap has moved since.
    """

    at_ns: int
    next_due_ns: int | None
    capped: list[TimerGroup[tuple[Lane, TurnId]]] = field(default_factory=list)


class Window:
    """Drives lanes from the barrier to the end of the drain. ``peers`` are the level's workers."""

    def __init__(
        self,
        lanes: list[Lane],
        traffic: Traffic,
        scenario: Scenario,
        timers: TimerQueue[tuple[Lane, TurnId]],
        peers: Peers,
    ) -> None:
        self._lanes = {lane.index: lane for lane in lanes}
        self._traffic = traffic
        self._peers = peers
        self._clock = traffic.clock
        self._scenario = scenario
        self._timers = timers
        self._grace_ns = round(scenario.grace_s * NS_PER_S)
        self._session_cap_ns = round(scenario.session_idle_cap_s * NS_PER_S)
        self._session_deadlines: list[tuple[int, int, int]] = []
        self._idle_since_ns = 0
        self._left_idle: _LeftIdle | None = None
        self._wake = Alarm(self._clock, traffic.guard(self.pump))
        self._ahead = Alarm(self._clock, traffic.guard(self._prepare))
        self._failed = self._ended = 0
        self._stopped: Reason | None = None
        self.open_ns = self._nominal_close_ns = self._close_ns = 0
        self.is_open = False

    async def run(self, open_ns: int, earliest_s: float) -> WindowResult:
        """Open, return when drained.

        ``open_ns`` is now, or was just now; ``earliest_s`` is the shift common to all workers.
        """
        self._traffic.on_ended = self._on_ended
        self.open_ns = open_ns
        await self._traffic.settled(lambda: self._open(earliest_s))
        return WindowResult(
            open_ns=self.open_ns,
            close_ns=self._close_ns,
            drained_ns=self._clock.now_ns(),
            nominal_close_ns=self._nominal_close_ns,
            system_skipped_s=self._timers.skipped_ns / NS_PER_S,
            stopped=self._stopped,
        )

    def stop(self, reason: Reason) -> None:
        """Close early: start nothing more, drain what is in flight."""
        if self.is_open:
            self._stopped = reason
            self._close()

    def ends_ns(self) -> int:
        """Return when the stage it is in, window or drain, ends at the latest."""
        return self._nominal_close_ns if self.is_open else self._close_ns + self._grace_ns

    # -- opening and closing -----------------------------------------------------------------

    def _open(self, earliest_s: float) -> None:
        self.is_open = True
        self._idle_since_ns = self.open_ns
        self._nominal_close_ns = self.open_ns + round(self._scenario.window_s * NS_PER_S)
        self._clock.call_at(self._nominal_close_ns, self._traffic.guard(self._close))
        for lane in self._lanes.values():
            self._lane_is_idle(lane, self._idle_from_ns(lane))
            due_ns = {
                offset.turn: self.open_ns + max(0, round((offset.offset_s - earliest_s) * NS_PER_S))
                for offset in resume_offsets(lane)
            }
            self._file(lane, lane.play.resume(due_ns, lane.own_time_ns(self.open_ns)))
        self.pump()

    def _idle_from_ns(self, lane: Lane) -> int:
        """Return from when a lane's session counts as idle as the window opens."""
        if self._scenario.session_idle_from == "barrier":
            return self.open_ns
        return idle_since_ns(lane.idle_since_ns, self.open_ns, self._session_cap_ns, lane.index)

    def _close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._close_ns = self._clock.now_ns()
        self._wake.cancel()
        self._ahead.cancel()
        self._clock.call_at(self.ends_ns(), self._traffic.guard(self._cut))
        self._settle_if_drained()

    def _cut(self) -> None:
        if self._traffic.in_flight:
            self._traffic.endpoint.cut()

    def _settle_if_drained(self) -> None:
        if not self.is_open:
            self._traffic.settle_if_quiet()

    # -- events ------------------------------------------------------------------------------

    def _on_ended(self, lane: Lane, turn: TurnId, dispatch: Dispatch, response: Response) -> None:
        self._count(response)
        if self.is_open:
            now_ns = self._clock.now_ns()
            self._advance(lane, turn, dispatch, response, now_ns)
            if not self._traffic.in_flight:
                self._idle_since_ns = now_ns
                self._left_idle = None
            if not lane.in_flight:
                self._lane_is_idle(lane, now_ns)
            self.pump()
        self._settle_if_drained()

    def _count(self, response: Response) -> None:
        self._ended += 1
        self._failed += response.status is Status.FAILED
        failing = self._peers.failing(self._ended, self._failed)
        if failing is not None:
            self.stop(failing)

    def _advance(
        self, lane: Lane, turn: TurnId, dispatch: Dispatch, response: Response, now_ns: int
    ) -> None:
        own_now_ns = lane.own_time_ns(now_ns)
        if response.status is Status.OVERFLOW:
            self._file(lane, lane.play.give_up(turn.conversation, own_now_ns))
        else:
            self._file(lane, lane.play.ended(turn, own_now_ns))
        if lane.play.conversation_over(turn.conversation):
            lane.prompts.forget(turn.conversation)
            self._traffic.endpoint.conversation_ended(dispatch.conversation_id)
        while lane.play.drained:
            self._traffic.recorder.record_play(lane.record(now_ns))
            lane.next_play(now_ns)
            self._file(lane, lane.play.start(lane.own_time_ns(now_ns)))

    def _file(self, lane: Lane, due: list[Due]) -> None:
        for turn, due_ns in due:
            self._timers.add(lane.timers, due_ns, (lane, turn))

    # -- timers and caps ---------------------------------------------------------------------

    def pump(self) -> None:
        """Issue what is due, apply the caps, and arrange to be called for the next."""
        now_ns = self._clock.now_ns()
        if not self.is_open or now_ns >= self._nominal_close_ns:
            return
        was_idle, next_due_ns = not self._traffic.in_flight, self._timers.next_due_ns()
        capped = self._apply_session_cap(now_ns)
        while (due := self._timers.pop_due(now_ns)) is not None:
            due_ns, (lane, turn) = due
            self._traffic.send(lane, turn, Phase.WINDOW, due_ns)
            self._file(lane, lane.play.issued(turn, lane.own_time_ns(now_ns)))
        if was_idle and self._traffic.in_flight:
            self._left_idle = _LeftIdle(now_ns, next_due_ns)
        if self._left_idle is not None:
            self._left_idle.capped += capped
        self._apply_system_cap()
        self._arm()

    def _lane_is_idle(self, lane: Lane, now_ns: int) -> None:
        lane.idle_since_ns = now_ns
        heapq.heappush(self._session_deadlines, (now_ns + self._session_cap_ns, lane.index, now_ns))

    def _apply_session_cap(self, now_ns: int) -> list[TimerGroup[tuple[Lane, TurnId]]]:
        """Return the timers of the trees that it moved."""
        moved = []
        deadlines = self._session_deadlines
        while deadlines and deadlines[0][0] <= now_ns:
            _, index, idle_since_ns = heapq.heappop(deadlines)
            lane = self._lanes[index]
            if lane.in_flight or lane.idle_since_ns != idle_since_ns:
                continue
            next_due_ns = self._timers.group_next_due_ns(lane.timers)
            shift_ns = session_shift_ns(next_due_ns, idle_since_ns, self._session_cap_ns, now_ns)
            if shift_ns:
                self._timers.skip_group(lane.timers, shift_ns)
                moved.append(lane.timers)
        return moved

    def _apply_system_cap(self) -> None:
        """Tell this worker's state until it tells one that has all that was skipped: others take
        no older one for idle.
        """
        while shift_ns := self._peers.tell(self._state()) - self._timers.skipped_ns:
            self._timers.skip(shift_ns)
            if self._left_idle is not None:
                self._made_up_for(shift_ns, self._left_idle)

    def _made_up_for(self, shift_ns: int, left: "_LeftIdle") -> None:
        """Put right what happened between a system shift's own instant, at which all were idle, and
        now: trees whose cap came since would have had so much less to skip.
        """
        if left.next_due_ns is not None:
            left.next_due_ns -= shift_ns
        for timers in left.capped:
            self._timers.skip_group(timers, -shift_ns)

    def _state(self) -> WorkerState:
        left, caps = self._left_idle, self._session_deadlines
        return WorkerState(
            idle_since_ns=self._idle_since_ns,
            idle_until_ns=left.at_ns if left else caps[0][0] if caps else None,
            next_due_ns=left.next_due_ns if left else self._timers.next_due_ns(),
            skipped_ns=self._timers.skipped_ns,
            ended=self._ended,
            failed=self._failed,
        )

    def _arm(self) -> None:
        instants = [self._timers.next_due_ns()]
        if self._session_deadlines:
            instants.append(self._session_deadlines[0][0])
        self._wake.by(min((instant for instant in instants if instant is not None), default=None))
        self._arm_ahead()

    # -- what is due soon --------------------------------------------------------------------

    def _arm_ahead(self) -> None:
        due_ns = self._timers.next_unforeseen_ns()
        if due_ns is not None and due_ns < self._nominal_close_ns:
            self._ahead.by(due_ns - PREPARE_AHEAD_NS)

    def _prepare(self) -> None:
        """Tell the endpoint which conversations send soon. Decides nothing and moves no timer."""
        until_ns = self._clock.now_ns() + PREPARE_AHEAD_NS
        while (soon := self._timers.foresee(until_ns)) is not None:
            due_ns, (lane, turn) = soon
            compose = lane.composing(turn)
            self._traffic.endpoint.prepare(
                lane.index, lane.conversation_id(turn.conversation), due_ns, compose
            )
        self._arm_ahead()
