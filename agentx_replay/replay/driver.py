"""One point: N lanes from warm-up to drain, in order. Where the phases of a replay are joined."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from agentx_replay.plan.graph import TurnId
from agentx_replay.plan.plan import Plan
from agentx_replay.reason import Reason
from agentx_replay.replay.lane import Lane, LaneContext, PromptSources
from agentx_replay.replay.page import Meeting
from agentx_replay.replay.peers import Alone, Peers
from agentx_replay.replay.ports import Clock, Endpoint, Recorder
from agentx_replay.replay.timers import TimerQueue
from agentx_replay.replay.traffic import Traffic
from agentx_replay.replay.warmup import Warmed, WarmUp, WarmupError, longest_lead_s
from agentx_replay.replay.window import INTERRUPTED, Window, WindowResult, earliest_offset_s
from agentx_replay.text_format import counted
from agentx_replay.units import NS_PER_S


class Stage(StrEnum):
    """What a replay is doing."""

    WARMUP = "warm-up"
    WINDOW = "window"
    DRAIN = "drain"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot for the screen; ``left_s`` is None where no end is known (the warm-up), and
    ``warmed`` outside it.
    """

    stage: Stage
    left_s: float | None
    in_flight: int
    live_plays: int
    recycled_plays: int
    warmed: Warmed | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How a point went; ``window`` is None where the warm-up did not reach the barrier.

    ``failure`` says why the point is not a measurement, ``interrupted`` that a person stopped it.
    """

    start_ns: int
    window: WindowResult | None
    failure: Reason | None = None
    interrupted: bool = False

    def at_clock(self, ahead_ns: int) -> "ReplayResult":
        """Return the result by a clock that is ``ahead_ns`` ahead of its own."""
        window = self.window and self.window.at_clock(ahead_ns)
        return replace(self, start_ns=self.start_ns + ahead_ns, window=window)


class Replay:
    """Replays a plan against an endpoint, in a closed loop.

    A worker among several is given its ``lanes`` and its ``peers``; without, it plays them all.
    """

    def __init__(
        self,
        plan: Plan,
        prompt_sources: PromptSources,
        clock: Clock,
        endpoint: Endpoint,
        recorder: Recorder,
        *,
        run_id: str,
        lanes: Sequence[int] | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._scenario = plan.scenario
        self._clock = clock
        cap_ns = round(plan.scenario.system_idle_cap_s * NS_PER_S)
        self._peers = peers or Alone(clock, cap_ns, plan.concurrency)
        self._traffic = Traffic(clock, endpoint, recorder)
        self._timers: TimerQueue[tuple[Lane, TurnId]] = TimerQueue()
        context = LaneContext(plan, prompt_sources, run_id, self._timers)
        now_ns = clock.now_ns()
        indices = range(plan.concurrency) if lanes is None else lanes
        self._lanes = [Lane(context, index, now_ns) for index in indices]
        self._warmup = WarmUp(self._lanes, self._traffic, self._scenario.warmup_requests)
        self._window: Window | None = None
        self._stage = Stage.WARMUP
        self._interrupted = False

    async def run(self) -> ReplayResult:
        """Warm up, measure, drain. Never raises for what a server does."""
        start_ns = self._clock.now_ns()
        try:
            return await self._run(start_ns)
        finally:
            self._stage = Stage.DONE
            for lane in self._lanes:
                self._traffic.recorder.record_play(lane.record(None))

    async def _run(self, start_ns: int) -> ReplayResult:
        limit_ns = start_ns + round(self._scenario.warmup_timeout_s * NS_PER_S)
        timeout = self._clock.call_at(limit_ns, self._warmup_timed_out)
        try:
            barrier = await self._warm_up()
        except WarmupError as error:
            await self._abandon()
            failure = None if self._interrupted else error.reason
            return ReplayResult(start_ns, None, failure, self._interrupted)
        finally:
            timeout.cancel()
        self._stage = Stage.WINDOW
        self._window = Window(self._lanes, self._traffic, self._scenario, self._timers, self._peers)
        earliest_s = barrier.least_s
        window = await self._window.run(
            barrier.at_ns, earliest_s if math.isfinite(earliest_s) else 0.0
        )
        failure = None if self._interrupted else window.stopped
        return ReplayResult(start_ns, window, failure, self._interrupted)

    async def _warm_up(self) -> Meeting:
        """Go from nothing to the barrier, to which each brings its earliest offset."""
        ready = await self._meet(longest_lead_s(self._lanes))
        await self._warmup.prime(ready.at_ns, ready.most_s)
        await self._meet(0.0)
        await self._warmup.press()
        return await self._meet(earliest_offset_s(self._lanes))

    async def _meet(self, brought_s: float) -> Meeting:
        """Return when every worker has come here, at the instant from which all go on.

        What the meeting itself takes is no idle time, so that it is the same for any number of
        workers.
        """
        meetings: list[Meeting] = []

        def met(meeting: Meeting) -> None:
            meetings.append(meeting)
            self._clock.call_at(meeting.at_ns, self._traffic.settle)

        await self._traffic.settled(lambda: self._peers.meet(brought_s, met))
        (meeting,) = meetings
        for lane in self._lanes:
            lane.idle_since_ns += meeting.at_ns - meeting.reached_ns
        return meeting

    def stop(self) -> None:
        """A person stops the run: start nothing more, drain, end. In the warm-up: end at once."""
        self._interrupted = True
        if self._window is not None:
            self._window.stop(INTERRUPTED)
        else:
            self._traffic.fail(WarmupError(INTERRUPTED))

    def stop_window(self, reason: Reason) -> None:
        """Close the window for a reason of its own: start nothing more, drain, end."""
        if self._window is not None:
            self._window.stop(reason)

    @property
    def opened_ns(self) -> int | None:
        """When the window opened; None before."""
        return self._window.open_ns if self._window is not None else None

    def leave(self) -> None:
        """Stop, and end what is in flight now."""
        self.stop()
        self._traffic.endpoint.cut()

    def wake(self) -> None:
        """Idle time has been skipped by a peer: look at the timers again."""
        if self._window is not None:
            self._traffic.guard(self._window.pump)()

    def _warmup_timed_out(self) -> None:
        late, seconds = self._traffic.in_flight, self._scenario.warmup_timeout_s
        what = f"warm-up failed: {counted(late, 'request')} had not returned after {seconds:g} s"
        self._traffic.fail(WarmupError(Reason("warm-up-timed-out", what)))

    async def _abandon(self) -> None:
        """End what the failed warm-up left in flight, and wait until it is recorded."""
        self._traffic.on_ended = lambda *_: self._traffic.settle_if_quiet()
        self._traffic.endpoint.cut()
        await self._traffic.settled(self._traffic.settle_if_quiet)

    def progress(self) -> Progress:
        stage, left_s = self._stage, None
        if stage is Stage.WINDOW and self._window is not None:
            stage = Stage.WINDOW if self._window.is_open else Stage.DRAIN
            left_s = max(0.0, (self._window.ends_ns() - self._clock.now_ns()) / NS_PER_S)
        return Progress(
            stage=stage,
            left_s=left_s,
            in_flight=self._traffic.in_flight,
            live_plays=len(self._lanes),
            recycled_plays=sum(lane.play_number for lane in self._lanes),
            warmed=self._warmup.warmed() if stage is Stage.WARMUP else None,
        )
