"""Run the official harness and compare what it sends with what we would. Opt-in: it needs both.

    python benchmarks/official_run.py TRACES HARNESS_PYTHON TOKENIZER [LANES [WINDOW_S [RUNS]]]

TRACES is a directory of trace files, HARNESS_PYTHON the Python of an environment that has
agentx-harness 1.0.12 installed, TOKENIZER a directory with a tokenizer.json and its config (the
harness needs one; which does not matter here). The harness runs scenario agentx RUNS times (2)
against our simulator, on this machine's loopback; each time ours is played in virtual time with
the durations the harness met. Compared are the primers, each lane's warm-up in order, and the
spacing of the window's requests, all of the lanes' first sessions: recycled ones come in the
harness's own order. What differs is printed, and the exit code is 1.

The harness records when the last token of a response came, and begins the next wait when its worker
has handed the response over: up to 25 ms later on two cores, more for longer responses. So the wait
is taken from there, which ``official_watch`` notes, and compared in the run in which it came
closest: what a machine adds to a wait differs from run to run, another plan would not.
"""

import gzip
import json
import os
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
WATCH = Path(__file__).with_name("official_watch")
NEAR_S = 0.020
"""By how much a wait may differ in the run in which it came closest."""

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
        returns = Path(scratch) / "returns"
        corpus.mkdir()
        returns.touch()
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
            done = subprocess.run(
                command,
                env=os.environ | {"AGENTX_RETURNS": str(returns), "PYTHONPATH": str(WATCH)},
                timeout=900 + window_s,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            server.close()
        if done.returncode:
            sys.exit(f"the harness ended with {done.returncode}:\n{done.stderr[-2000:]}")
        lines = (results / "profile_export.jsonl").read_text().splitlines()
        told = [line.split() for line in returns.read_text().splitlines()]
    rows = sorted((json.loads(line)["metadata"] for line in lines), key=_issued_ns)
    ended_ns = {(stream, int(turn)): int(at_ns) for stream, turn, at_ns in told}
    return [_sent(row, _issued_ns(rows[0]), ended_ns) for row in rows]


def _issued_ns(row: dict[str, Any]) -> int:
    return int(row["credit_issued_ns"])


def _sent(row: dict[str, Any], first_ns: int, ended_ns: dict[tuple[str, int], int]) -> Sent:
    """Return a row of the harness's records; it ended when the harness learned of it."""
    issued_ns = _issued_ns(row)
    name = row["x_correlation_id"], row["turn_index"]
    place = (row["source_trace_id"], row["source_outer_idx"], row.get("source_inner_idx"))
    taken_s = (ended_ns.get(name, row["request_end_ns"]) - issued_ns) / _NS
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
            if sent.play_number == 0
        ),
        key=lambda sent: sent.at_s,
    )


# -- compared --------------------------------------------------------------------------------------


Waits = dict[Place, tuple[float, float]]
"""How long ours and theirs waited after their lane's request before, in s, in the window."""


def differences(our: list[Sent], their: list[Sent]) -> Iterator[str]:
    """Yield a sentence for each difference in what is sent and in which order."""
    primers = [sent.place for sent in our if sent.phase == Phase.PRIMER]
    warmup = [sent for sent in their if sent.phase == "warmup"]
    official = {sent.place for sent in warmup[: len(primers)]}
    for place in official ^ set(primers):
        yield f"primer {place}: sent by {'the harness' if place in official else 'us'} alone"
    pressed = _by_session(our, Phase.CACHE_PRESSURE)
    for session, sequence in _by_session(warmup[len(primers) :], "warmup").items():
        mine = pressed.get(session)
        if mine is not None and [s.place for s in sequence] != [s.place for s in mine]:
            yield f"{session}: another warm-up: {_first_difference(mine, sequence)}"
    for pairs in _window_pairs(our, their):
        for one, other in pairs:
            if one.place != other.place:
                yield f"{one.place} in the window, officially {other.place}"
                break


def waits(our: list[Sent], their: list[Sent]) -> Waits:
    """Return when the window's requests go out, each from the end of its lane's one before.

    Neither has a say in when that ended.
    """
    found: Waits = {}
    for pairs in _window_pairs(our, their):
        both = zip(_waits_s([o for o, _ in pairs]), _waits_s([o for _, o in pairs]), strict=True)
        found |= {one.place: each for (one, _), each in zip(pairs[1:], both, strict=True)}
    return found


def closest(runs: list[Waits]) -> Waits:
    """Return each wait of the run in which ours and theirs were closest."""
    places = {place for run in runs for place in run}
    return {
        place: min((run[place] for run in runs if place in run), key=_apart_s) for place in places
    }


def _apart_s(wait: tuple[float, float]) -> float:
    our_s, their_s = wait
    return abs(our_s - their_s)


def _window_pairs(our: list[Sent], their: list[Sent]) -> list[list[tuple[Sent, Sent]]]:
    """Return each session's requests of the window, ours beside theirs, in order."""
    mine, official = _by_session(our, Phase.WINDOW), _by_session(their, "profiling")
    return [
        list(zip(mine[session], sequence, strict=False))
        for session, sequence in official.items()
        if session in mine
    ]


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
    traces: Path,
    python: str,
    tokenizer: str,
    concurrency: int = 4,
    window_s: int = 60,
    runs: int = 2,
) -> int:
    """Compare, print, and return the exit code."""
    found: list[str] = []
    each_run: list[Waits] = []
    for number in range(runs):
        their = theirs(traces, python, tokenizer, concurrency, window_s)
        our = ours(traces, concurrency, window_s, {sent.place: sent.taken_s for sent in their})
        found += (f"run {number + 1}: {said}" for said in differences(our, their))
        each_run.append(waits(our, their))
        print(f"run {number + 1}: {_counts(our)}; harness {_counts(their)}")
        print(f"  {len(each_run[-1])} waits, at most {_most_ms(each_run[-1]):.1f} ms apart")
    best = closest(each_run)
    found += (
        f"{place}: waited {our_s:.3f} s, officially {their_s:.3f} s in the closest run"
        for place, (our_s, their_s) in best.items()
        if abs(our_s - their_s) > NEAR_S
    )
    if found:
        print(*found, sep="\n")
    print(f"closest of {runs} runs: {len(best)} waits, at most {_most_ms(best):.1f} ms apart")
    print(f"{len(found)} differences")
    return 1 if found else 0


def _counts(sent: list[Sent]) -> str:
    phases = sorted({each.phase for each in sent})
    return ", ".join(f"{sum(s.phase == phase for s in sent)} {phase}" for phase in phases)


def _most_ms(found: Waits) -> float:
    return 1e3 * max(map(_apart_s, found.values()), default=0.0)


if __name__ == "__main__":
    _traces, _python, _tokenizer, *_numbers = sys.argv[1:]
    sys.exit(main(Path(_traces), _python, _tokenizer, *map(int, _numbers)))
