"""An hour's worth of requests at 500 streams with faults: nothing grows, nothing is missing.

Sessions of a few seconds stand for sessions of an hour, so that the requests of an hour take
minutes. ``.ci/long`` runs it; its figures are in ``benchmarks/results/soak.json``.
"""

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command, started
from faulty_server import faulty_server
from small_corpus import corpus, request, session

from agentx_replay.results.run_directory import read_points
from benchmarks.results_file import write_result

STREAMS = 500
WINDOW_S = 420
SAMPLE_S = 1.0
PAGE_BYTES = 4096
RUN = (
    "run", "--concurrency", str(STREAMS), "--workers", "1", "--override", f"window_s={WINDOW_S}",
    "--override", "grace_s=10", "--override", "warmup_requests=1",
    "--override", "system_idle_cap_s=60", "--override", "session_idle_cap_s=60",
)  # fmt: skip

pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True)
class Soaked:
    """Samples of the client over the window (seconds, resident bytes, descriptors), what the
    server was sent (a list of request ids), and the records.
    """

    at_s: list[float]
    resident_bytes: list[int]
    descriptors: list[int]
    sent: list[str]
    rows: list[dict[str, Any]]

    def last_quarter_slope(self) -> float:
        """Return by how many bytes a second memory grows in the last quarter.

        Of each ten seconds the least: a part that is being written comes and goes.
        """
        quarter = len(self.at_s) * 3 // 4
        at_s, resident = np.array(self.at_s[quarter:]), np.array(self.resident_bytes[quarter:])
        tens = len(at_s) // 10
        least = resident[: tens * 10].reshape(tens, 10).min(axis=1)
        return float(np.polyfit(at_s[: tens * 10 : 10], least, 1)[0])


def _samples(command: Command) -> Iterator[tuple[float, int, int]]:
    process = Path(f"/proc/{command.process.pid}")
    begun_s = time.monotonic()
    # Of the window alone: a drain may be too short to be seen, and what follows reads records back.
    while (at_s := time.monotonic() - begun_s) < WINDOW_S - SAMPLE_S:
        assert command.process.poll() is None, command.said
        resident = int((process / "statm").read_text().split()[1]) * PAGE_BYTES
        yield at_s, resident, len(list((process / "fd").iterdir()))
        time.sleep(SAMPLE_S)


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Soaked:
    place = tmp_path_factory.mktemp("soak")
    traces, out = place / "traces", place / "out"
    corpus(
        traces,
        *(
            session(f"s{of}", *(request(3.0 * n, range(n + 1), out=20) for n in range(15)))
            for of in range(600)
        ),
    )
    with faulty_server() as url:
        arguments = (*RUN, "--url", url, "--traces", str(traces), "--out", str(out))
        with started(place, *arguments) as command:
            command.wait_until(lambda: "c=500 window" in command.said)
            at_s, resident, descriptors = zip(*_samples(command), strict=True)
            assert command.process.wait(180) in (0, 1)
        with urllib.request.urlopen(f"{url}/truth") as answer:
            told = json.load(answer)["responses"]
    (point,) = read_points(out)
    columns = ("request_id", "status", "error_category", "retries", "completion_tokens")
    rows = point.requests(columns).to_pylist()
    run_id = str(point.document["run_id"])
    sent = [each["request_id"] for each in told if each["request_id"].startswith(f"{run_id}-")]
    return Soaked(list(at_s), list(resident), list(descriptors), sent, rows)


def test_every_request_that_was_sent_has_one_record(soaked: Soaked) -> None:
    recorded = Counter(row["request_id"] for row in soaked.rows)
    assert set(recorded.values()) == {1}
    again = sum(row["retries"] for row in soaked.rows)
    assert len(soaked.sent) == len(soaked.rows) + again
    assert set(soaked.sent) == recorded.keys()
    failed = sum(row["status"] == "failed" for row in soaked.rows)
    assert 0.003 < failed / len(soaked.rows) < 0.02


def test_neither_memory_nor_descriptors_grow(soaked: Soaked) -> None:
    slope_mb_per_10_min = soaked.last_quarter_slope() * 600 / 1e6
    categories = Counter(row["error_category"] or row["status"] for row in soaked.rows)
    write_result(
        "soak",
        {
            "streams": STREAMS,
            "window_s": WINDOW_S,
            "requests_sent": len(soaked.sent),
            "records": len(soaked.rows),
            "retries": sum(row["retries"] for row in soaked.rows),
            "ended_as": dict(categories.most_common()),
            "resident_mb": [round(each / 1e6, 1) for each in soaked.resident_bytes[::30]],
            "last_quarter_slope_mb_per_10_min": round(slope_mb_per_10_min, 2),
            "descriptors_most": max(soaked.descriptors),
            "descriptors_at_the_end": soaked.descriptors[-1],
        },
    )
    assert slope_mb_per_10_min < 1.0
    half = len(soaked.descriptors) // 2
    # One connection a stream, the program's own files, and a connection that is being replaced.
    assert max(soaked.descriptors[half:]) <= max(soaked.descriptors[:half]) + 20
    assert max(soaked.descriptors) <= 2 * STREAMS
