"""Looking at a level while it is measured, and stopping it if it clearly fails its objective.

Not for: the rule (``analysis/early.py``); nothing here reaches a record.
"""

from collections.abc import Sequence

import numpy as np

from agentx_replay.analysis.early import (
    SKIPPED,
    EarlyRule,
    Exceeding,
    Tallies,
    joint,
    level_fails,
    looks_due,
)
from agentx_replay.analysis.latency import LATENCIES
from agentx_replay.experiment.live_view import timed
from agentx_replay.plan.plan import Plan
from agentx_replay.reason import Reason
from agentx_replay.replay.driver import Replay
from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, Recorder, Response, Status
from agentx_replay.units import NS_PER_S


class Looks:
    """Judges a level by ``rule``, each time that a look is due."""

    def __init__(self, rule: EarlyRule, window_s: float) -> None:
        self._rule = rule
        self._window_s = window_s
        self._looked = 0

    def reason(self, parts: Sequence[Tallies]) -> Reason | None:
        """Return why the level of these parts stops; None if it goes on."""
        due = looks_due(min(part.since_open_s for part in parts), self._window_s)
        if due <= self._looked:
            return None
        self._looked = due
        found = level_fails(self._rule, joint([part.seen for part in parts]))
        return None if found is None else found.reason(due)


class EarlyWatch:
    """A recorder that passes everything on, and counts what ``rule`` (None: nothing) asks of the
    responses. If it is ``alone``, it stops the replay at the first look at which the level clearly
    fails; a look is taken when the first response after its time ends. Else whoever hears the
    ``tallies`` of all parts does. ``replay`` is set before it runs.
    """

    def __init__(
        self, recorder: Recorder, rule: EarlyRule | None, plan: Plan, *, alone: bool = True
    ) -> None:
        self._recorder = recorder
        self._looks = Looks(rule, plan.scenario.window_s) if rule and alone else None
        self._skipped_ns = SKIPPED * plan.scenario.window_s * NS_PER_S
        clauses = rule.clauses if rule is not None else ()
        self._seen = {
            clause: Exceeding(*np.zeros((2, plan.concurrency), np.int64)) for clause in clauses
        }
        self._times = any(clause.share is not None for clause in clauses)
        self.replay: Replay | None = None

    def record(self, dispatch: Dispatch, response: Response) -> None:
        self._recorder.record(dispatch, response)
        tallies = self.tallies(response.end_ns)
        if tallies is None or self.replay is None or dispatch.phase is not Phase.WINDOW:
            return
        if response.send_ns - (self.replay.opened_ns or 0) >= self._skipped_ns:
            self._count(dispatch.lane, response)
        reason = self._looks.reason([tallies]) if self._looks is not None else None
        if reason is not None:
            self.replay.stop_window(reason)

    def record_play(self, play: PlayRecord) -> None:
        self._recorder.record_play(play)

    def tallies(self, now_ns: int) -> Tallies | None:
        """Return what has been counted; None if nothing is to be, or before the window."""
        opened_ns = None if self.replay is None else self.replay.opened_ns
        if not self._seen or opened_ns is None:
            return None
        return Tallies((now_ns - opened_ns) / NS_PER_S, self._seen)

    def _count(self, lane: int, response: Response) -> None:
        of = timed([response]) if self._times and response.status is Status.OK else None
        for clause, seen in self._seen.items():
            beyond = response.status is Status.FAILED
            if clause.share is not None:
                value_s = np.nan if of is None else LATENCIES[clause.metric](of)[0] / NS_PER_S
                if np.isnan(value_s):
                    continue
                beyond = value_s > clause.bound
            seen.counts[lane] += 1
            seen.beyond[lane] += beyond
