"""Real proxies, and relays that do one nasty thing, between the client and a server that knows when
it sent each token: the P90 ITL is right, or the level is not valid.

``.ci/long`` runs it; its figures are in ``benchmarks/results/proxies.json``.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import finished
from proxies import PROXIES, proxied
from relay import KINDS, relayed
from small_corpus import corpus, request, session

from agentx_replay.results.run_directory import read_points
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import SimulatorProcess, launch_simulator
from agentx_replay.simulator.server import ServerConfig
from benchmarks.results_file import write_result

STEP_MS = 10.0
RUN = (
    "run", "--concurrency", "4", "--workers", "1", "--scenario", "quick", "--override",
    "window_s=8", "--override", "grace_s=5", "--override", "primer_lead_s=0.1",
)  # fmt: skip
ON_THE_WAY = {
    "responses-in-one-arrival", "arrivals-gathered", "tokens-unshown",
    "some-arrivals-gathered", "some-tokens-unshown",
}  # fmt: skip
EXPECTED = {
    "haproxy, defaults": "arrivals-gathered",
    "haproxy, compression gzip": "arrivals-gathered",
    "lighttpd, defaults": "responses-in-one-arrival",
    "relay: bunch": "arrivals-gathered",
    "relay: timer": "arrivals-gathered",
    "relay: hide_half": "tokens-unshown",
    "relay: thin": "tokens-unshown",
    "relay: gzip_unflushed": "responses-in-one-arrival",
}
"""What is found of those that gather or hide."""
NAMES = ["no proxy", *PROXIES, *(f"relay: {kind}" for kind in KINDS)]

Figures = dict[str, Any]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Figures]]:
    place = tmp_path_factory.mktemp("proxies")
    corpus(place / "traces", *(_session(number) for number in range(8)))
    engine = EngineModel(
        step_base_ms=STEP_MS, per_sequence_ms=0, per_context_token_ms=0, per_prefill_token_ms=0
    )
    server = launch_simulator(ServerConfig(engine=engine, truth_bytes=1 << 28))
    found = {}
    try:
        for name in NAMES:
            with _between(name, server, place) as url:
                found[name] = _measured(place, name, url, server.url)
        yield found
    finally:
        server.close()
        write_result("proxies", {"step_ms": STEP_MS, "cases": found})


def _session(number: int) -> dict[str, Any]:
    """Ten turns of 80 to 139 tokens."""
    turns = (
        request(1.5 * n, range(n + 1), out=80 + (37 * n + 11 * number) % 60) for n in range(10)
    )
    return session(f"s{number}", *turns)


def _between(name: str, server: SimulatorProcess, place: Path) -> AbstractContextManager[str]:
    upstream = int(server.url.rpartition(":")[2])
    if name == "no proxy":
        return nullcontext(server.url)
    start: Callable[[], AbstractContextManager[str]]
    if name.startswith("relay: "):
        start = partial(relayed, name.removeprefix("relay: "), upstream)
    else:
        start = partial(proxied, PROXIES[name], upstream, place / str(NAMES.index(name)))
    return start()


def _measured(place: Path, name: str, url: str, truth: str) -> Figures:
    out = place / f"out-{NAMES.index(name)}"
    ended = finished(*RUN, "--url", url, "--traces", str(place / "traces"), "--out", str(out))
    assert ended.returncode in (0, 1), ended.stderr
    (point,) = read_points(out)
    summary = point.document["summary"]
    rows = point.requests(("request_id", "phase", "status")).to_pylist()
    ids = {
        row["request_id"]
        for row in rows
        if row["phase"] == "window" and row["status"] in ("ok", "length_mismatch")
    }
    with urllib.request.urlopen(f"{truth}/truth") as answer:
        sent = [each for each in json.load(answer)["responses"] if each["request_id"] in ids]
    true_ms = np.percentile([_itl_ns(each) for each in sent], 90) / 1e6
    itl_ms = summary["response_itl"] and summary["response_itl"]["p90_s"] * 1e3
    error = summary["itl_error"]
    return {
        "responses": len(sent),
        "true_p90_itl_ms": round(float(true_ms), 3),
        "p90_itl_ms": itl_ms and round(itl_ms, 3),
        "off": itl_ms and round(itl_ms / float(true_ms) - 1, 4),
        "valid": point.document["valid"],
        "findings": [
            each["code"]
            for each in point.document["findings"]
            if each["kind"] == "invalid" or each["code"] in ON_THE_WAY
        ],
        "in_one_arrival": error["in_one_arrival"],
        "gathered": error["gathered"],
        "most_events_a_read": error["most_events"],
        "gathered_error": error["gathered_error"],
    }


def _itl_ns(sent: dict[str, Any]) -> float:
    at_ns, tokens = sent["sent_ns"], sent["tokens"]
    return float((at_ns[-1] - at_ns[0]) / (sum(tokens) - tokens[0]))


@pytest.mark.parametrize("name", NAMES)
def test_a_valid_p90_itl_is_right(table: dict[str, Figures], name: str) -> None:
    found = table[name]
    assert not found["valid"] or abs(found["off"]) <= 0.025


@pytest.mark.parametrize("name", EXPECTED)
def test_what_gathers_or_hides_is_named(table: dict[str, Figures], name: str) -> None:
    assert EXPECTED[name] in table[name]["findings"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in EXPECTED])
def test_what_passes_events_on_leaves_the_itl_right(table: dict[str, Figures], name: str) -> None:
    # On a busy machine a proxy may gather some events all the same, and the level be refused.
    assert abs(table[name]["off"]) <= 0.025
