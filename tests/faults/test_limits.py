"""Sizes nobody expects: read, played and recorded in bounded memory, or refused in words."""

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import orjson
import pytest
import uvloop
from command_line import ROOT, finished
from record_cases import LEVEL, dispatch
from scripted_server import DONE, HEAD, LAST_CHUNK, Answer, chunk, scripted, token, usage
from small_corpus import request, session

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.replay.ports import ErrorCategory, Response, Status
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.run_directory import read_points
from agentx_replay.results.schema import REQUESTS

MB = 1_000_000


def answered(steps: Answer) -> Response:
    async def main() -> Response:
        async with scripted([steps]) as server:
            url = BaseUrl("http", "127.0.0.1", server.port, "/v1")
            client = Client(EndpointSettings(url, "m"))
            try:
                return await client.send(dispatch())
            finally:
                await client.close()

    return uvloop.run(main())


MEASURED = """
import atexit, pathlib, sys
from agentx_replay.cli import main
from agentx_replay.traces import files
files.MOST_SESSION_BYTES //= 8
told = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: told.write_text(pathlib.Path("/proc/self/status").read_text()))
main()
"""
"""The command, which tells at its end what the kernel knows of it. (What ``wait4`` tells of a child
counts the parent's memory, too.) A session may be an eighth of 512 MiB."""


def peak_memory(place: Path, *arguments: str) -> tuple[int, int]:
    """Run a command; return its exit code and the most memory it took, in bytes."""
    told = place / "status"
    code = subprocess.call(
        [sys.executable, "-c", MEASURED, str(told), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", told.read_text())
    return code, int(peak) * 1024


# --- traces -------------------------------------------------------------------------------------


def test_a_session_of_a_million_tokens_is_played_whole(tmp_path: Path) -> None:
    # 15,616 blocks of 64 tokens are 999,424; its two turns before share all but the last blocks.
    million = session("s", *(request(2.0 * n, range(15_614 + n), out=4) for n in range(3)))
    trace = tmp_path / "million.json"
    trace.write_bytes(orjson.dumps(million))
    out = tmp_path / "out"
    # The modelled engine takes half a minute for a prompt of that size, so that one may be cut.
    _, peak_bytes = peak_memory(
        tmp_path, "run", "--virtual", "--traces", str(trace), "--concurrency", "1",
        "--override", "window_s=300", "--out", str(out),
    )  # fmt: skip
    (point,) = read_points(out)
    rows = point.requests(("prompt_tokens", "recorded_input_tokens", "status")).to_pylist()
    lengths = {
        (row["recorded_input_tokens"], row["prompt_tokens"])
        for row in rows
        if row["status"] == "ok"
    }
    assert (999_424, 999_424) in lengths
    assert all(recorded == sent for recorded, sent in lengths)
    assert peak_bytes < 250 * MB


def test_a_trace_file_of_forty_megabytes_is_read_in_a_few_times_its_size(tmp_path: Path) -> None:
    # 330 prompts of 14,000 ids of eight digits and a comma: 330 · 126,000 bytes.
    ids = orjson.dumps([10_000_000 + n for n in range(14_000)])[1:-1]
    row = b'{"t":%d,"type":"n","model":"m","in":896000,"out":1,"api_time":1,"hash_ids":[%b]}'
    rows = b",".join(row % (2 * n, ids) for n in range(330))
    trace = tmp_path / "large.json"
    trace.write_bytes(b'{"id":"s","block_size":64,"requests":[%b]}' % rows)
    assert trace.stat().st_size > 40 * MB
    code, peak_bytes = peak_memory(tmp_path, "traces", "stats", str(trace))
    assert code == 0
    assert peak_bytes < 100 * MB + 3 * trace.stat().st_size


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 1_000_000,
        b'{"requests":' * 100_000,
        b'{"id":"s","block_size":64,"requests":[{"hash_ids":' + b"[" * 1_000_000,
    ],
)
def test_a_trace_nested_a_million_deep_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    trace = tmp_path / "deep.json"
    trace.write_bytes(content)
    result = finished("traces", "stats", str(trace))
    assert result.returncode == 2
    assert "deep.json" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_trace_that_unpacks_to_a_gigabyte_is_refused_before_it_is_in_memory(
    tmp_path: Path,
) -> None:
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b" " * (16 * 2**20), 1) * 64)
    code, peak_bytes = peak_memory(tmp_path, "traces", "stats", str(bomb))
    assert code == 2
    # Up to the bound of 64 MiB it is unpacked, in pieces that are then joined; and the program.
    assert peak_bytes < 2 * 68 * MB + 200 * MB


# --- responses ----------------------------------------------------------------------------------


def test_a_response_of_sixty_thousand_tokens_is_kept_to_the_last_stamp(tmp_path: Path) -> None:
    tokens = [chunk(token("x") * 600) for _ in range(100)]
    end = chunk(token("", "length") + usage(5, 60_000) + DONE)
    response = answered([HEAD, *tokens, end, LAST_CHUNK])
    assert response.status is Status.OK
    assert (len(response.arrival_ns), response.completion_tokens) == (60_000, 60_000)
    with closing(Recorder(tmp_path, LEVEL, origin_ns=0)) as recorder:
        recorder.record(dispatch(), response)
    REQUESTS.compact(tmp_path)
    (row,) = REQUESTS.read(tmp_path).to_pylist()
    assert len(row["arrival_deltas_us"]) == 59_999
    assert row["last_token_ns"] == response.last_token_ns


def _without_end(piece: bytes) -> Iterator[bytes]:
    """Forty megabytes of a piece in chunks: more than any bound."""
    yield from [chunk(piece * (250_000 // len(piece)))] * 160


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (HEAD, b"x"),  # one event without end
        (HEAD, b"data: x"),
        (HEAD, b"data: x\n"),  # lines of one event, never an empty one
        (HEAD.replace(b"200 OK", b"500 Oops"), b"error "),
        (HEAD.replace(b"event-stream", b"json").replace(b"text", b"application"), b"[[["),
    ],
)
def test_a_body_without_end_is_given_up_at_its_bound(head: bytes, piece: bytes) -> None:
    response = answered([head, *_without_end(piece)])
    assert (response.status, response.error_category) == (Status.FAILED, ErrorCategory.TOO_LARGE)


@pytest.mark.parametrize(
    ("data", "category"),
    [
        (b"[" * 1_000_000, ErrorCategory.TRUNCATED),  # no data, passed over: then nothing comes
        (b'{"a":' * 100_000, ErrorCategory.MALFORMED),
        (b'{"choices":[{"delta":' + b"{" * 500_000, ErrorCategory.MALFORMED),
    ],
)
def test_an_event_nested_a_million_deep_is_no_json_object(
    data: bytes, category: ErrorCategory
) -> None:
    response = answered([HEAD, chunk(token("a") + b"data: " + data + b"\n\n"), LAST_CHUNK])
    assert response.error_category is category
    assert len(response.arrival_ns) == 1


def test_an_error_nested_a_million_deep_is_an_error() -> None:
    body = b'{"error":' + b"[" * 1_000_000
    answer = b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    response = answered([answer])
    assert response.error_category is ErrorCategory.SERVER_ERROR
    assert len(response.error_text or "") == 500


def test_numbers_that_no_count_can_be_are_not_believed() -> None:
    told = b'{"prompt_tokens": -1, "completion_tokens": 1%b}' % (b"0" * 30)
    body = token("a", "length") + b'data: {"choices":[],"usage":%b}\n\n' % told + DONE
    response = answered([HEAD, chunk(body), LAST_CHUNK])
    assert response.status is Status.OK
    assert len(response.arrival_ns) == 1
    assert (response.prompt_tokens, response.completion_tokens) == (None, None)


def test_a_finish_reason_without_end_is_cut_for_the_record() -> None:
    body = token("a", "length" * 100_000) + DONE
    assert len(answered([HEAD, chunk(body), LAST_CHUNK]).finish_reason or "") == 500


def test_stamps_stay_in_order_over_any_number_of_reads() -> None:
    steps = [HEAD, *(chunk(token("x")) for _ in range(2_000)), chunk(token("", "stop") + DONE)]
    response = answered([*steps, LAST_CHUNK])
    assert len(response.arrival_ns) == 2_000
    assert bool((np.diff(response.arrival_ns) >= 0).all())
