"""Looking at a level while it is measured, and stopping it if it clearly fails its objective.

Not for: the rule (``analysis/early.py``); nothing here reaches a record.
"""

import numpy as np

from agentx_replay.analysis.early import (
    SKIPPED,
    EarlyRule,
    exceeding,
    level_fails,
    look_due,
)
from agentx_replay.analysis.latency import LATENCIES
from agentx_replay.experiment.live_view import timed
from agentx_replay.plan.plan import Plan
from agentx_replay.replay.driver import Replay
from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, Recorder, Response, Status
from agentx_replay.units import NS_PER_S


class EarlyWatch:
    """A recorder that passes everything on, and stops the replay at the first look at which the
    level clearly fails by ``rule`` (None: never). A look is taken when the first response after its
    time ends. ``replay`` is set before it runs.
    """

    def __init__(self, recorder: Recorder, rule: EarlyRule | None, plan: Plan) -> None:
        self._recorder = recorder
        self._rule = rule
        self._window_s = plan.scenario.window_s
        clauses = rule.clauses if rule is not None else ()
        self._seen = {clause: exceeding(plan.concurrency) for clause in clauses}
        self._looked = 0
        self.replay: Replay | None = None

    def record(self, dispatch: Dispatch, response: Response) -> None:
        self._recorder.record(dispatch, response)
        opened_ns = None if self.replay is None else self.replay.opened_ns
        if self._rule is None or dispatch.phase is not Phase.WINDOW or opened_ns is None:
            return
        if response.send_ns - opened_ns >= SKIPPED * self._window_s * NS_PER_S:
            self._count(dispatch.lane, response)
        self._look((response.end_ns - opened_ns) / NS_PER_S)

    def record_play(self, play: PlayRecord) -> None:
        self._recorder.record_play(play)

    def _count(self, lane: int, response: Response) -> None:
        well, of = response.status is Status.OK, timed([response])
        for clause, seen in self._seen.items():
            value = float(response.status is Status.FAILED)
            if clause.share is not None:
                value = float(LATENCIES[clause.metric](of)[0]) / NS_PER_S if well else np.nan
            if not np.isnan(value):
                seen.counts[lane] += 1
                seen.beyond[lane] += value > (clause.bound if clause.share is not None else 0.0)

    def _look(self, since_open_s: float) -> None:
        due = False
        while look_due(since_open_s, self._window_s, self._looked):
            self._looked, due = self._looked + 1, True
        found = level_fails(self._rule, self._seen) if due and self._rule is not None else None
        if found is not None and self.replay is not None:
            self.replay.stop_window(found.reason(self._looked))
