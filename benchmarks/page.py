"""What the page of an hour at 512 lanes weighs, and how long it takes to make and to open.

    python benchmarks/page.py

Makes such a run (no server: responses drawn from the published statistics of agent sessions), then
its report in a process of its own, then opens the page in headless Chromium until it is painted.
Prints one JSON object. Needs Debian's chromium, half a GB of memory and a minute or two.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from chromium import browser  # noqa: E402
from record_cases import SECOND, dispatch, prompt, response  # noqa: E402

from agentx_replay.analysis.facts import Conduct, Rules  # noqa: E402
from agentx_replay.analysis.point import PointFacts, facts_document  # noqa: E402
from agentx_replay.analysis.responses import Window  # noqa: E402
from agentx_replay.replay.ports import Dispatch, Response  # noqa: E402
from agentx_replay.report.rebuild import Report  # noqa: E402
from agentx_replay.results.layout import Measurement  # noqa: E402
from agentx_replay.results.recorder import Recorder  # noqa: E402
from agentx_replay.results.run_directory import PointStatus, RunDirectory  # noqa: E402
from agentx_replay.results.schema import INSTRUMENT, PLAYS  # noqa: E402

LANES = 512
HOUR_S = 3600.0
SUBAGENT_EVERY = 20
REQUESTS_A_PLAY = 60


def make(path: Path) -> int:
    """Write the run and return how many requests it holds."""
    run = RunDirectory.create(path)
    run.write_sweep({"command": ["sweep"], "started_unix_s": 1_790_000_000.0})
    directory = run.start_point(Measurement(LANES), {})
    sent = 0
    with closing(Recorder(directory, Measurement(LANES), origin_ns=0)) as recorder:
        for lane in range(LANES):
            for request, came in _lane(lane, recorder):
                recorder.record(request, came)
                sent += 1
        for s in range(int(HOUR_S)):
            recorder.append(INSTRUMENT, (0, s * SECOND, 150_000, s * SECOND // 2))
    facts = PointFacts(
        LANES, 64, Window(0, round(HOUR_S * SECOND), HOUR_S),
        Rules("agentx", True, HOUR_S), Conduct(),
    )  # fmt: skip
    run.write_point(Measurement(LANES), PointStatus.COMPLETE, facts_document(facts))
    return sent


def _lane(lane: int, recorder: Recorder) -> Iterator[tuple[Dispatch, Response]]:
    """Yield the requests of a lane's hour and record its plays."""
    rng = np.random.default_rng([7, lane])
    at_s, number, began_s = float(rng.uniform(0, 10)), 0, 0.0
    while at_s < HOUR_S:
        output = int(np.clip(rng.lognormal(5.6, 1.0), 2, 4000))
        itl_s = float(rng.lognormal(-3.9, 0.3))
        first_s = at_s + float(rng.lognormal(-0.3, 0.8))
        gaps_s = np.cumsum(rng.exponential(itl_s, output))
        arrival_ns = ((first_s + gaps_s) * SECOND).astype(np.int64)
        tokens = int(np.clip(rng.lognormal(11.3, 0.7), 2000, 400_000))
        play_number = number // REQUESTS_A_PLAY
        sent = dispatch(
            intended_start_ns=round(at_s * SECOND), lane=lane, concurrency=LANES,
            play_number=play_number,
            request_id=f"{lane}-{number}",
            play_id=f"{lane}-{play_number}", session_id=f"s{lane}-{play_number}",
            stream=int(number % SUBAGENT_EVERY == 0), turn=number % REQUESTS_A_PLAY,
            recorded_input_tokens=tokens, max_tokens=output,
            prompt=prompt(tokens, tokens // 10 * 9),
        )  # fmt: skip
        came = response(
            send_ns=round(at_s * SECOND), arrival_ns=arrival_ns.tolist(),
            end_ns=int(arrival_ns[-1]) + 1_000_000, prompt_tokens=tokens,
            cached_tokens=tokens * 17 // 20, completion_tokens=output,
        )  # fmt: skip
        yield sent, came
        number += 1
        at_s = float(arrival_ns[-1]) / SECOND + float(np.clip(rng.lognormal(1.6, 1.0), 0.1, 300))
        if number % REQUESTS_A_PLAY == 0 or at_s >= HOUR_S:
            recorder.append(
                PLAYS,
                (f"{lane}-{play_number}", f"s{lane}-{play_number}", lane, play_number, None,
                 round(began_s * SECOND), round(at_s * SECOND), REQUESTS_A_PLAY, 0, 0.0, 0.0)
            )  # fmt: skip
            began_s = at_s


def report(path: Path) -> dict[str, float]:
    """Make the report; return how long it took, what the page weighs, and the memory it took."""
    began_s = time.perf_counter()
    page = Report.of(path, (30.0, 50.0, 150.0)).write()
    return {
        "report_s": round(time.perf_counter() - began_s, 1),
        "report_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "page_mb": round(page.stat().st_size / 1e6, 2),
    }


async def opened(page: Path) -> dict[str, float]:
    """Return seconds until the page has loaded, and until it has been painted."""
    async with browser() as tab:
        began_s = time.perf_counter()
        await tab.open(page, 1280, dark=False)
        loaded_s = time.perf_counter() - began_s
        await tab.call("Page.captureScreenshot")
        painted_s = time.perf_counter() - began_s
    return {"load_s": round(loaded_s, 2), "painted_s": round(painted_s, 2)}


def main() -> None:
    """Make the run, its report and open it."""
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "run"
        requests = make(path)
        with get_context("spawn").Pool(1) as pool:
            made = pool.apply(report, (path,))
        shown = asyncio.run(opened(path / "report.html"))
    print(json.dumps({"lanes": LANES, "window_s": HOUR_S, "requests": requests, **made, **shown}))


if __name__ == "__main__":
    main()
