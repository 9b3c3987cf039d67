"""Run the official harness and compare what it sends with what we would. Opt-in: it needs both.

    python benchmarks/official_run.py TRACES HARNESS_PYTHON TOKENIZER [CONCURRENCY] [WINDOW_S]

TRACES is a directory of trace files, HARNESS_PYTHON the Python of an environment that has
agentx-harness 1.0.12 installed, TOKENIZER a directory with a tokenizer.json and its config (the
harness needs one; which does not matter here). The harness runs scenario agentx against our
simulator, on this machine's loopback; ours is then played in virtual time with the durations the
harness met. Compared are the primers, each lane's warm-up in order, and the spacing of the window's
requests, all of the lanes' first sessions: recycled ones come in the harness's own order. What
differs is printed, and the exit code is 1.
"""

import gzip
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from virtual_replay import Log, NoText, Timed  # noqa: E402

from agentx_replay.plan.plan import GraphLibrary, Plan  # noqa: E402
from agentx_replay.plan.selection import select_sessions  # noqa: E402
from agentx_replay.replay.driver import Replay  # noqa: E402
from agentx_replay.replay.ports import Dispatch, Phase  # noqa: E402
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock  # noqa: E402
from agentx_replay.scenario import load_scenario  # noqa: E402
from agentx_replay.simulator.process import launch_simulator  # noqa: E402
from agentx_replay.simulator.server import ServerConfig  # noqa: E402
from agentx_replay.traces.corpus import read_corpus  # noqa: E402
from benchmarks.official_streams import places  # noqa: E402

SEED = 42
NEAR_S = 0.050
"""The harness passes a request through three processes: on two busy cores it is 25 ms late."""

USUAL_S = 0.5
_NS = 1_000_000_000

Place = tuple[str, int, int | None]
"""A recorded request: its session, its entry in the file, and its place inside a subagent."""


class Sent(NamedTuple):
    """One request as it was sent; ``at_s`` counts from the run's first."""

    phase: str
    place: Place
    at_s: float
    taken_s: float


# -- theirs ----------------------------------------------------------------------------------------


def theirs(
    traces: Path, python: str, tokenizer: str, concurrency: int, window_s: int
) -> list[Sent]:
    """Run the harness against our simulator and return what it sent, in order of issue."""
    with TemporaryDirectory() as scratch:
        corpus, results = Path(scratch) / "traces", Path(scratch) / "results"
        corpus.mkdir()
        for path in traces.glob("*.json*"):
            if not path.name.startswith("manifest"):
                raw = path.read_bytes()
                plain = gzip.decompress(raw) if path.suffix == ".gz" else raw
                (corpus / path.name.removesuffix(".gz")).write_bytes(plain)
        server = launch_simulator(ServerConfig())
        try:
            command = [
                *(python, str(Path(python).with_name("agentx")), "profile"),
                *("--model", "simulated", "--url", server.url, "--tokenizer", tokenizer),
                *("--custom-dataset-type", "weka_trace", "--input-file", str(corpus)),
                *("--concurrency", str(concurrency), "--benchmark-duration", str(window_s)),
                *("--random-seed", str(SEED), "--endpoint-type", "chat", "--streaming"),
                *("--ui", "none", "--export-level", "records", "--unsafe-override"),
                *("--output-artifact-dir", str(results)),
            ]
            subprocess.run(command, check=True, timeout=900 + window_s, capture_output=True)
        finally:
            server.close()
        lines = (results / "profile_export.jsonl").read_text().splitlines()
    rows = sorted((json.loads(line)["metadata"] for line in lines), key=_issued_ns)
    return [_sent(row, _issued_ns(rows[0])) for row in rows]


def _issued_ns(row: dict[str, Any]) -> int:
    return int(row["credit_issued_ns"])


def _sent(row: dict[str, Any], first_ns: int) -> Sent:
    issued_ns = _issued_ns(row)
    place = (row["source_trace_id"], row["source_outer_idx"], row.get("source_inner_idx"))
    taken_s = (row["request_end_ns"] - issued_ns) / _NS
    return Sent(row["benchmark_phase"], place, (issued_ns - first_ns) / _NS, taken_s)


# -- ours ------------------------------------------------------------------------------------------


def ours(traces: Path, concurrency: int, window_s: int, taken_s: dict[Place, float]) -> list[Sent]:
    """Return what our first plays send, in order, on a server as fast as the harness's was."""
    corpus = read_corpus(traces)
    scenario = load_scenario("agentx").override(window_s=float(window_s), seed=SEED)
    selection = select_sessions(corpus, max_context=None, max_sessions=scenario.max_sessions)
    plan = Plan(scenario, corpus.fingerprint, GraphLibrary(selection, scenario), concurrency)
    at = {session.id: places(session) for session in corpus.sessions}
    log = Log()

    def place(dispatch: Dispatch) -> Place:
        return dispatch.session_id, *at[dispatch.session_id][dispatch.request_index]

    async def play() -> None:
        clock = virtual_clock()
        endpoint = Timed(clock, lambda dispatch: taken_s.get(place(dispatch), USUAL_S))
        await Replay(plan, lambda *_: NoText(), clock, endpoint, log, run_id="t").run()

    run_virtual(play())
    return sorted(
        (
            Sent(sent.phase, place(sent), came.send_ns / _NS, (came.end_ns - came.send_ns) / _NS)
            for sent, came in log.requests
            if sent.ordinal == 0
        ),
        key=lambda sent: sent.at_s,
    )


# -- compared --------------------------------------------------------------------------------------


def differences(our: list[Sent], their: list[Sent]) -> Iterator[str]:
    """Yield a sentence for each difference."""
    primers = [sent.place for sent in our if sent.phase == Phase.PRIMER]
    warmup = [sent for sent in their if sent.phase == "warmup"]
    official = {sent.place for sent in warmup[: len(primers)]}
    for place in official ^ set(primers):
        yield f"primer {place}: sent by {'the harness' if place in official else 'us'} alone"
    pressed = _by_session(our, Phase.PRESSURE)
    for session, sequence in _by_session(warmup[len(primers) :], "warmup").items():
        mine = pressed.get(session)
        if mine is not None and [s.place for s in sequence] != [s.place for s in mine]:
            yield f"{session}: another warm-up: {_first_difference(mine, sequence)}"
    yield from _window_differences(our, their)


def _window_differences(our: list[Sent], their: list[Sent]) -> Iterator[str]:
    """Compare when the window's requests go out, each from the end of its lane's one before.

    Neither has a say in when that ended.
    """
    mine = _by_session(our, Phase.WINDOW)
    for session, sequence in _by_session(their, "profiling").items():
        if session not in mine:
            continue
        pairs = list(zip(mine[session], sequence, strict=False))
        for one, other in pairs:
            if one.place != other.place:
                yield f"{session}: {one.place} in the window, officially {other.place}"
                return
        waits = zip(_waits_s([o for o, _ in pairs]), _waits_s([o for _, o in pairs]), strict=True)
        for (one, _), (our_s, their_s) in zip(pairs[1:], waits, strict=True):
            if abs(our_s - their_s) > NEAR_S:
                yield f"{one.place}: waited {our_s:.3f} s, officially {their_s:.3f} s"


def _by_session(sent: list[Sent], phase: str) -> dict[str, list[Sent]]:
    sessions: dict[str, list[Sent]] = defaultdict(list)
    for each in sent:
        if each.phase == phase:
            sessions[each.place[0]].append(each)
    return sessions


def _first_difference(mine: list[Sent], sequence: list[Sent]) -> str:
    number, pair = next(
        (n, p)
        for n, p in enumerate(zip_longest(mine, sequence))
        if (p[0] and p[0].place) != (p[1] and p[1].place)
    )
    ours_, official = (sent.place if sent else "nothing" for sent in pair)
    return f"request {number} is {ours_}, officially {official}"


def _waits_s(sent: list[Sent]) -> list[float]:
    return [after.at_s - (before.at_s + before.taken_s) for before, after in pairwise(sent)]


def main(
    traces: Path, python: str, tokenizer: str, concurrency: int = 4, window_s: int = 60
) -> int:
    """Compare, print, and return the exit code."""
    their = theirs(traces, python, tokenizer, concurrency, window_s)
    our = ours(traces, concurrency, window_s, {sent.place: sent.taken_s for sent in their})
    found = list(differences(our, their))
    if found:
        print(*found, sep="\n")
    counts = {
        phase: sum(s.phase == phase for s in sent)
        for sent in (our, their)
        for phase in sorted({s.phase for s in sent})
    }
    print(f"{counts}: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    _traces, _python, _tokenizer, *_numbers = sys.argv[1:]
    sys.exit(main(Path(_traces), _python, _tokenizer, *map(int, _numbers)))
