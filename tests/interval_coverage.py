"""How often a 95 % interval holds the truth, on sweeps replayed in virtual time.

Sessions come from a population that is known: each has a pace of its own (its ITL) and prompts of
its own length, and within it ITL varies from request to request. A sweep draws 32 sessions and
replays them at 16 and at 32 lanes. The server is slower at 32 lanes and otherwise never waits, so
that the truth is a number: P90 ITL and tokens per lane of the whole population, computed here
without any code under test from 200,000 lanes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from record_cases import recorded
from stream_graphs import graph, step
from virtual_replay import SCENARIO, Log, NoText, plan_of

from agentx_replay.analysis.bootstrap import (
    Interval,
    LevelSample,
    Replicates,
    draw,
    interval,
    level_sample,
    replicate,
    replicates_at,
)
from agentx_replay.analysis.window import Window
from agentx_replay.replay.driver import Replay
from agentx_replay.replay.ports import Clock, Dispatch, Response, Status
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock

LEVELS = (16, 32)
ITL_S = {16: 0.020, 32: 0.033}
WINDOW_S = 20.0
TURNS = 20
OUTPUT_TOKENS = 50
TTFT_S = 0.3
TARGET = 22.0
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """Sessions of the population: how much slower than usual each request's tokens come, the gap
    before each, of shape ``(sessions, turns)``, and the prompt of each session's requests.
    """

    pace: NDArray[np.float64]
    gap_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]


def work(rng: np.random.Generator, sessions: int) -> Work:
    shape = sessions, TURNS
    pace = np.exp(rng.normal(0, 0.35, (sessions, 1)) + rng.normal(0, 0.3, shape))
    prompts = np.exp(rng.normal(9.0, 0.5, sessions)).astype(np.int64)
    return Work(pace, rng.uniform(1.0, 4.0, shape), prompts)


def truth(seed: int, lanes: int = 200_000) -> tuple[float, float, float]:
    """Interactivity and throughput at 32 lanes, and throughput at the target."""
    population = work(np.random.default_rng(seed), lanes)
    points = [_truth_of(population, level) for level in LEVELS]
    (fast, low), (slow, high) = points
    return slow, high, low + (TARGET - fast) / (slow - fast) * (high - low)


def _truth_of(population: Work, level: int) -> tuple[float, float]:
    itl_s = ITL_S[level] * population.pace
    took_s = TTFT_S + (OUTPUT_TOKENS - 1) * itl_s
    gap_s = population.gap_s.copy()
    gap_s[:, 0] = 0.0
    sent_s = np.cumsum(gap_s, axis=1) + np.cumsum(took_s, axis=1) - took_s
    inside = sent_s < WINDOW_S
    assert not inside[:, -1].any(), "no session is played to its end"
    tokens = (inside.sum(axis=1) * (population.prompt_tokens + OUTPUT_TOKENS)).mean()
    speed = 1.0 / np.quantile(itl_s[inside], 0.9)
    return float(speed), float(level * tokens / _span_s(sent_s + took_s, inside, level))


def _span_s(end_s: NDArray[np.float64], inside: NDArray[np.bool_], level: int) -> float:
    """The mean over sweeps of the time until the last of ``level`` lanes has ended."""
    last_s = np.where(inside, end_s, 0.0).max(axis=1)
    return float(last_s[: len(last_s) // level * level].reshape(-1, level).max(axis=1).mean())


@dataclass(slots=True)
class Paced:
    """An endpoint that answers at the pace of the work, whatever else is in flight."""

    clock: Clock
    work: Work
    itl_s: float
    _waits: list[asyncio.Event] = field(default_factory=list)

    async def send(self, dispatch: Dispatch) -> Response:
        session = int(dispatch.session_id)
        itl_s = self.itl_s * self.work.pace[session, dispatch.turn]
        send_ns = self.clock.now_ns()
        first_ns = send_ns + round(TTFT_S * _S)
        end_ns = first_ns + round((OUTPUT_TOKENS - 1) * itl_s * _S)
        done = asyncio.Event()
        self._waits.append(done)
        self.clock.call_at(end_ns, done.set)
        await done.wait()
        return Response(
            Status.OK,
            send_ns,
            self.clock.now_ns(),
            arrival_ns=np.array([first_ns, end_ns]),
            prompt_tokens=int(self.work.prompt_tokens[session]),
            arrival_tokens=np.array([1, OUTPUT_TOKENS - 1], np.int32),
            completion_tokens=OUTPUT_TOKENS,
        )

    def prepare(self, lane: int, stream_id: str, due_ns: int, compose: Callable[[], int]) -> None:
        """There is no connection to make."""

    def cut(self) -> None:
        for wait in self._waits:
            wait.set()

    def stream_ended(self, stream_id: str) -> None:
        """Nothing is held."""

    async def close(self) -> None:
        self._waits.clear()


def replayed(of: Work, lanes: int) -> LevelSample:
    """Replay a level in virtual time and return what the bootstrap sees of it."""
    gaps = of.gap_s.tolist()
    graphs = [
        graph(
            [step(t, t, gap_s=gap if t else 0.0, output_tokens=OUTPUT_TOKENS)
             for t, gap in enumerate(gaps[session])],
            session_id=str(session),
        )
        for session in range(len(gaps))
    ]  # fmt: skip
    log = Log()
    scenario = replace(SCENARIO, window_s=WINDOW_S, grace_s=60.0)

    async def main() -> Window:
        clock = virtual_clock()
        endpoint = Paced(clock, of, ITL_S[lanes])
        plan = plan_of(graphs, lanes, scenario)
        run = Replay(plan, lambda *_: NoText(), clock, endpoint, log, run_id="t")
        window = (await run.run()).window
        assert window is not None
        return Window(window.open_ns, window.close_ns, WINDOW_S)

    window = run_virtual(main())
    first = {play.lane: play.session_id for play in log.plays if play.ordinal == 0}
    return level_sample(recorded(log.requests).responses, window, lanes, first)


@dataclass(frozen=True, slots=True)
class Held:
    """Whether each interval of one sweep held the truth."""

    interactivity: bool
    throughput: bool
    at_target: bool


def sweep(seed: int, known: tuple[float, float, float]) -> Held:
    """Replay one sweep and look whether its intervals hold what is known."""
    of = work(np.random.default_rng(seed), max(LEVELS))
    samples = [replayed(of, level) for level in LEVELS]
    draws = draw([sample.clusters for sample in samples])
    levels: list[Replicates] = [
        replicate(sample, drawn) for sample, drawn in zip(samples, draws, strict=True)
    ]
    return Held(
        holds(interval(levels[-1].interactivity, levels[-1].clusters), known[0]),
        holds(interval(levels[-1].throughput, levels[-1].clusters), known[1]),
        holds(interval(replicates_at(levels, TARGET), levels[0].clusters), known[2]),
    )


def holds(found: Interval, value: float) -> bool:
    """Whether an interval, or a bound, holds a value."""
    low = -np.inf if found.low is None else found.low
    high = np.inf if found.high is None else found.high
    return bool(low <= value <= high)
