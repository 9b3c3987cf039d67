"""The warm-up: primers and cache pressure, after which the cache is as it would be mid-traffic.

First every conversation with history sends its last prompt once, spread so that all t* coincide.
Then each lane issues a number of requests with gaps removed and one output token; order across
conversations and joins hold, and a lane that drains a tree takes the next session. Idle caps have
no part here.
"""

from dataclasses import dataclass

from agentx_replay.plan.graph import TurnId
from agentx_replay.reason import Reason
from agentx_replay.replay.lane import Lane
from agentx_replay.replay.peers import too_many_failed
from agentx_replay.replay.play import Due
from agentx_replay.replay.ports import Dispatch, Phase, Response, Status
from agentx_replay.replay.traffic import Traffic
from agentx_replay.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Warmed:
    """How far a warm-up is: primers and cache-pressure requests that have returned, of all."""

    primers_done: int
    primers: int
    cache_pressure_done: int
    cache_pressure: int


class WarmupError(Exception):
    """The warm-up cannot give a sound start; ``reason`` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


def longest_lead_s(lanes: list[Lane]) -> float:
    """Return the longest lead of the lanes' primers, 0 where they have none."""
    leads_s = (primer.lead_s for lane in lanes for primer in lane.planned.start.primers)
    return max(leads_s, default=0.0)


def primer_offset_ns(lead_s: float, longest_s: float) -> int:
    """Return when a primer fires, in ns from the one with the longest lead of all."""
    return round((longest_s - lead_s) * NS_PER_S)


class WarmUp:
    """Drives lanes from nothing to the barrier, in two phases.

    Both return when all they sent has returned, and raise ``WarmupError`` when too many of the
    requests so far failed (``peers.too_many_failed``), or all.
    """

    def __init__(self, lanes: list[Lane], traffic: Traffic, requests_per_lane: int) -> None:
        self._lanes = lanes
        self._traffic = traffic
        self._requests_per_lane = requests_per_lane
        self._primers = [(lane, primer) for lane in lanes for primer in lane.planned.start.primers]
        self._primers_left = len(self._primers)
        self._cache_pressure_done = 0
        self._ended = self._failed = 0
        self._last_failure = ""

    async def prime(self, start_ns: int, longest_s: float) -> None:
        """Fire the primers, the one with the lead ``longest_s`` at ``start_ns``."""
        if not self._primers:
            return
        self._traffic.on_ended = self._primer_ended

        def fire() -> None:
            for lane, primer in self._primers:
                when_ns = start_ns + primer_offset_ns(primer.lead_s, longest_s)
                self._fire_primer(lane, primer.turn, when_ns)

        await self._traffic.settled(fire)
        self._refuse_all_failed()

    async def press(self) -> None:
        self._traffic.on_ended = self._cache_pressure_ended
        await self._traffic.settled(self._press)
        self._refuse_all_failed()

    def warmed(self) -> Warmed:
        primers = len(self._primers)
        return Warmed(
            primers_done=primers - self._primers_left,
            primers=primers,
            cache_pressure_done=self._cache_pressure_done,
            cache_pressure=len(self._lanes) * self._requests_per_lane,
        )

    def _fire_primer(self, lane: Lane, turn: TurnId, when_ns: int) -> None:
        def send() -> None:
            self._traffic.send(lane, turn, Phase.PRIMER, when_ns)

        self._traffic.clock.call_at(when_ns, self._traffic.guard(send))

    def _primer_ended(self, _: Lane, __: TurnId, dispatch: Dispatch, response: Response) -> None:
        if self._spoiled(dispatch, response):
            return
        self._primers_left -= 1
        if not self._primers_left:
            self._traffic.settle()

    def _press(self) -> None:
        for lane in self._lanes:
            self._issue(lane, lane.play.start(self._now_ns(lane)))
        self._traffic.settle_if_quiet()

    def _cache_pressure_ended(
        self, lane: Lane, turn: TurnId, dispatch: Dispatch, response: Response
    ) -> None:
        if self._spoiled(dispatch, response):
            return
        self._cache_pressure_done += 1
        now_ns = self._now_ns(lane)
        if response.status is Status.OVERFLOW:
            due = lane.play.give_up(turn.conversation, now_ns)
        else:
            due = lane.play.ended(turn, now_ns)
        self._issue(lane, due)
        while lane.play.drained:
            wall_ns = self._traffic.clock.now_ns()
            self._traffic.recorder.record_play(lane.record(wall_ns))
            lane.next_play(wall_ns)
            self._issue(lane, lane.play.start(self._now_ns(lane)))
        self._traffic.settle_if_quiet()

    def _issue(self, lane: Lane, due: list[Due]) -> None:
        """Send what is due without its gap, up to the lane's number; the rest waits."""
        waiting = list(due)
        while waiting and lane.warmup_issued < self._requests_per_lane:
            turn = waiting.pop(0).turn
            lane.warmup_issued += 1
            self._traffic.send(lane, turn, Phase.CACHE_PRESSURE, self._traffic.clock.now_ns())
            waiting += lane.play.issued(turn, self._now_ns(lane))

    def _spoiled(self, dispatch: Dispatch, response: Response) -> bool:
        """Whether too many requests have failed, by the rule of the window over these lanes; that
        ends the warm-up.
        """
        self._ended += 1
        if response.status is Status.FAILED:
            self._failed += 1
            why = response.error_text or response.status.value
            self._last_failure = (
                f"request {dispatch.request_id} of session {dispatch.session_id} failed: {why}"
            )
        spoiled = too_many_failed(self._failed, self._ended, len(self._lanes))
        if spoiled:
            self._traffic.fail(self._failure())
        return spoiled

    def _refuse_all_failed(self) -> None:
        """Raise WarmupError where nothing came well, however few the requests were."""
        if self._failed and self._failed == self._ended:
            raise self._failure()

    def _failure(self) -> WarmupError:
        what = f"{self._failed} of {self._ended} requests, the last: {self._last_failure}"
        return WarmupError(Reason("warm-up-failed", f"warm-up failed: {what}"))

    def _now_ns(self, lane: Lane) -> int:
        return lane.own_time_ns(self._traffic.clock.now_ns())
