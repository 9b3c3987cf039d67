"""Run directories made to have a given curve, for tests of what is said about runs.

Every lane sends one request at second 0 of a window of 100 s and its response ends at second 100,
so that throughput is all tokens over 100 s; its 101 tokens come at an even pace, so that the P90
response ITL is the pace.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from record_cases import SECOND, dispatch, play, prompt, response, server_rows, write_rows

from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.point import PointFacts, measure_point, point_document
from agentx_replay.analysis.responses import Window, records_of
from agentx_replay.replay.ports import Dispatch, Response, Status
from agentx_replay.results.layout import Measurement, point_directory
from agentx_replay.results.rows import play_row, request_row
from agentx_replay.results.run_directory import PointStatus, RunDirectory
from agentx_replay.results.schema import INSTRUMENT, PLAYS, REQUESTS, SERVER

WINDOW = Window(0, 100 * SECOND, 100.0)
RULES = Rules(scenario="agentx", comparable=True, window_s=100.0)
OUTPUT_TOKENS = 101
GPUS = 8


@dataclass(frozen=True, slots=True)
class Level:
    """A level to be, or a start of one: interactivity in tokens/s/user, throughput in tokens/s
    per GPU of 8.

    ``session`` names the first session of a lane, ``status`` how every response ends. ``failure``
    says why the window never opened; then nothing was sent. Lanes of even number send the share
    ``uneven`` more tokens, the others as much less. ``hit`` is the cached share.
    Plays that end at second 100 end with the window, so not in it.
    """

    concurrency: int
    interactivity: float
    throughput: float
    session: Callable[[int], str] = lambda lane: f"session-{lane}"
    status: Status = Status.OK
    plan: str | None = None
    failure: str | None = None
    uneven: float = 0.0
    start: int = 1
    hit: float = 0.25
    plays_end_s: int = 100


def twice(levels: Sequence[Level], spread: float = 1.0) -> list[Level]:
    """The levels from two starts, of which the second is ``spread`` times as fast."""
    again = [
        replace(level, start=2, interactivity=level.interactivity * spread) for level in levels
    ]
    return [*levels, *again]


def make_run(
    path: Path,
    levels: Sequence[Level],
    *,
    gpus: int | None = GPUS,
    corpus: str = "c0ffee",
    scenario: str = "5ce7a810",
    **sweep: Any,
) -> Path:
    """Write a run directory and return its path."""
    run = RunDirectory.create(path)
    document = {
        "command": ["sweep"],
        "started_unix_s": 1_790_000_000.0,
        "versions": {"agentx-replay": "0.1.0"},
        "host": {"platform": "test", "cpus": 2},
        "scenario": {"name": "agentx", "fingerprint": scenario, "seed": 42},
        "corpus": {"name": "made", "fingerprint": corpus, "sessions": 1, "played": ["x"]},
        "target": {"kind": "server", "url": "http://127.0.0.1:8000/v1", "model": "m"},
    }
    run.write_sweep(document | sweep)
    for level in levels:
        _write_level(run, level, gpus)
    return path


def write_instrument(point: Path, rows: Sequence[tuple[int, ...]]) -> None:
    """Write samples of the client's load, tuples in the order of ``INSTRUMENT`` but for the start,
    which is 1, into a level.
    """
    ((level, *_), *_) = rows
    write_rows(point, INSTRUMENT, [row[1:] for row in rows], Measurement(level))


def write_rows_of_server(
    run: Path, concurrency: int, scrapes: Sequence[tuple[int, Sequence[str]]]
) -> None:
    """Write what a level's metrics page told, instants with lines, into a run."""
    pages = [("http://127.0.0.1/metrics", at_ns, lines) for at_ns, lines in scrapes]
    point = point_directory(run, Measurement(concurrency))
    write_rows(point, SERVER, server_rows(pages), Measurement(concurrency))


def _write_level(run: RunDirectory, level: Level, gpus: int | None) -> None:
    """Copy what was written once: many tests compare the same levels."""
    measurement = Measurement(level.concurrency, level.start)
    made = point_directory(_made_level(level, gpus), measurement)
    shutil.copytree(made, point_directory(run.path, measurement))


_MADE = tempfile.TemporaryDirectory()


@cache
def _made_level(level: Level, gpus: int | None) -> Path:
    """Return a run directory that has the level alone."""
    run = RunDirectory.create(Path(tempfile.mkdtemp(dir=_MADE.name)) / "run")
    measurement = Measurement(level.concurrency, level.start)
    directory = run.start_point(measurement, {})
    if level.failure is None:
        lanes = range(level.concurrency)
        sent = [request_row(*exchange(level, lane)) for lane in lanes]
        write_rows(directory, REQUESTS, sent, measurement)
        plays = [
            play(
                lane=lane,
                play_id=f"p{lane}",
                session_id=level.session(lane),
                end_ns=level.plays_end_s * SECOND,
            )
            for lane in lanes
        ]
        write_rows(directory, PLAYS, [play_row(each) for each in plays], measurement)
        for table in (REQUESTS, PLAYS):
            table.compact(directory)
    window = WINDOW if level.failure is None else None
    conduct = Conduct(failure=level.failure, failure_code=level.failure and "warm-up-failed")
    facts = PointFacts(level.concurrency, gpus, window, RULES, conduct, level.start)
    records = records_of(REQUESTS.at(directory).groups)
    status = PointStatus.COMPLETE if level.failure is None else PointStatus.FAILED
    point = measure_point(records, None, facts, status)
    plan = {"plan_fingerprint": level.plan or f"plan-{level.concurrency}-{level.start}"}
    run.write_point(measurement, status, plan | point_document(point))
    return run.path


def exchange(level: Level, lane: int) -> tuple[Dispatch, Response]:
    """What one lane sent, and what came."""
    share = 1.0 + (level.uneven if lane % 2 == 0 else -level.uneven)
    tokens = round(level.throughput * GPUS * 100 / level.concurrency * share) - OUTPUT_TOKENS
    last_ns = 99 * SECOND
    first_ns = last_ns - round((OUTPUT_TOKENS - 1) / level.interactivity * SECOND)
    sent = dispatch(
        lane=lane,
        play_id=f"p{lane}",
        session_id=level.session(lane),
        concurrency=level.concurrency,
        recorded_input_tokens=tokens,
        max_tokens=OUTPUT_TOKENS,
        prompt=prompt(tokens, max(tokens // 2, int(tokens * level.hit))),
    )
    came = response(
        status=level.status,
        arrival_ns=[first_ns, (first_ns + last_ns) // 2, last_ns],
        end_ns=100 * SECOND,
        prompt_tokens=tokens,
        cached_tokens=int(tokens * level.hit),
        arrival_tokens=[1, OUTPUT_TOKENS // 2, OUTPUT_TOKENS // 2],
        completion_tokens=OUTPUT_TOKENS,
    )
    return sent, came
