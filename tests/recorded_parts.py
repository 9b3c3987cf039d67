"""Parts of a level whose workers note every request's bytes (``recording_endpoint``)."""

import dataclasses
import os
import time
from functools import partial
from pathlib import Path

from recording_endpoint import Orders, RecordingEndpoint

from agentx_replay.experiment.part import Part
from agentx_replay.experiment.prompting import Prompting, wording_of
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.prompts.calibration import assumed
from agentx_replay.scenario import load_scenario

LANES = 6
SCENARIO = load_scenario("quick").override(
    window_s=1.0, grace_s=2.0, warmup_requests=3, primer_lead_s=0.2
)
TESTS = Path(__file__).resolve().parent
IMPORTABLE = f"{TESTS.parent}{os.pathsep}{TESTS}"
"""The ``PYTHONPATH`` by which a worker finds the endpoint."""


def parts(
    traces: Path, workers: int, orders: Orders, *, window_s: float = 1.0, lanes: int = LANES
) -> list[Part]:
    source = SessionSource(traces, False, None, "session", None)
    calibration = assumed("test", "chat")
    prompting = Prompting(wording_of(calibration, chat=True), calibration.cost, "salt", "session")
    corpus, selection = source.read()
    scenario = dataclasses.replace(SCENARIO, window_s=window_s)
    plan = Plan(scenario, corpus.fingerprint, GraphLibrary(selection, scenario), lanes, start=2)
    return [
        Part(
            plan=plan,
            source=source,
            prompting=prompting,
            attempt=0,
            run_id="r",
            directory=orders.directory,
            origin_ns=time.monotonic_ns(),
            open=partial(RecordingEndpoint, orders),
            worker=worker,
            workers=workers,
        )
        for worker in range(workers)
    ]
