"""Workers that stop now and then, in arithmetic: what they stamp, what was true, what they know.

Every lane plays responses one after the other on one of the workers, and a worker notices nothing
while it is stopped. There is no clock and no event loop here; a case is drawn by its seed.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from record_cases import MS, SECOND, dispatch, recorded, response

from agentx_replay.analysis.responses import Responses
from agentx_replay.endpoint.timing import ReadTimes, event_times
from agentx_replay.replay.ports import Dispatch, Response

_TOKEN_EVERY_NS = 20 * MS
_END_NS = 12 * SECOND
_LAST_TICK_NS = 60 * SECOND
"""After the last response: it lasts 4 s, and is stopped for 10 s four times."""
_TICK_NS = 2 * MS
_READ_NS = 20_000
"""What a worker takes to read one token: so much later is the next of those that waited."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What was recorded, and the true ITL and TTFT of each response, in ns."""

    responses: Responses
    itl_ns: NDArray[np.float64]
    ttft_ns: NDArray[np.float64]

    def off(self) -> tuple[float, float]:
        """How far the P90 ITL and the P90 TTFT are from the truth, relative to the measured."""
        first, last = self.responses.first_token_ns, self.responses.last_token_ns
        later = self.responses.completion_tokens - 1
        measured = (last - first) / later, first - self.responses.send_ns
        pairs = zip(measured, (self.itl_ns, self.ttft_ns), strict=True)
        p90s = [(np.percentile(seen, 90), np.percentile(true, 90)) for seen, true in pairs]
        itl, ttft = (abs(seen - true) / seen for seen, true in p90s)
        return float(itl), float(ttft)


@dataclass(frozen=True, slots=True)
class _Stops:
    """When a worker stands still, as pairs of instants in order, how late it is elsewhere, and when
    its loop ticks.
    """

    stops: tuple[tuple[int, int], ...]
    jitter_ns: int
    ticks_ns: NDArray[np.int64]

    def looks_ns(self, at_ns: int, rng: random.Random) -> int:
        """When the worker notices what happens at an instant."""
        for begins_ns, ends_ns in self.stops:
            if begins_ns <= at_ns < ends_ns:
                return ends_ns + rng.randrange(50) * _READ_NS
        return at_ns + int(rng.random() * self.jitter_ns)


def drawn(seed: int, *, stops_a_worker: int, jitter_ns: int = 300_000) -> Case:
    """Draw 1 to 3 workers with 12 lanes for 12 s, each stopped so often, for 0.05 to 10 s."""
    rng = random.Random(seed)
    workers = rng.randint(1, 3)
    crew = []
    for number in range(workers):
        stops = _stops(rng, stops_a_worker)
        ticks_ns = _ticks(stops, jitter_ns, np.random.default_rng((seed, number)))
        crew.append(_Stops(stops, jitter_ns, ticks_ns))
    played = [play for lane in range(12) for play in _plays(lane, crew[lane % workers], rng)]
    pairs, itl_ns, ttft_ns = zip(*played, strict=True)
    truth = np.array(itl_ns, np.float64), np.array(ttft_ns, np.float64)
    return Case(recorded(pairs).responses, *truth)


def _stops(rng: random.Random, number: int) -> tuple[tuple[int, int], ...]:
    found = []
    after_ns = 0
    for _ in range(number):
        begins_ns = after_ns + rng.randrange(8 * SECOND)
        after_ns = begins_ns + round(math.exp(rng.uniform(math.log(0.05), math.log(10))) * SECOND)
        found.append((begins_ns, after_ns))
    return tuple(found)


def _plays(
    lane: int, worker: _Stops, rng: random.Random
) -> Iterator[tuple[tuple[Dispatch, Response], int, int]]:
    send_ns = rng.randrange(SECOND)
    while send_ns < _END_NS:
        tokens = rng.randrange(20, 200)
        first_ns = send_ns + rng.randrange(30, 120) * MS
        last_ns = first_ns + (tokens - 1) * _TOKEN_EVERY_NS
        seen_ns = [worker.looks_ns(first_ns, rng), worker.looks_ns(last_ns, rng)]
        reads = ReadTimes(stamped=False, sent_ns=send_ns, stamps=bytearray(np.array(seen_ns)))
        reads.ticks_ns = worker.ticks_ns[np.searchsorted(worker.ticks_ns, send_ns) :]
        _, uncertainty_ns = event_times(reads, np.arange(2), [])
        came = response(
            send_ns=send_ns,
            first_token_uncertainty_ns=int(uncertainty_ns[0]),
            last_token_uncertainty_ns=int(uncertainty_ns[1]),
            arrival_ns=seen_ns,
            arrival_tokens=[1, tokens - 1],
            end_ns=seen_ns[1],
            completion_tokens=tokens,
        )
        yield (dispatch(lane=lane), came), _TOKEN_EVERY_NS, first_ns - send_ns
        send_ns = worker.looks_ns(seen_ns[1] + rng.randrange(5, 500) * MS, rng)


def _ticks(
    stops: tuple[tuple[int, int], ...], jitter_ns: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return when a loop ticks: each tick is due 2 ms after the one before, late by a draw, and in
    a stop not before its end.
    """
    at_ns, parts = -4 * _TICK_NS, [np.array([-4 * _TICK_NS])]
    for begins_ns, ends_ns in (*stops, (_LAST_TICK_NS, _LAST_TICK_NS)):
        most = max(0, begins_ns - at_ns) // _TICK_NS + 1
        ticks_ns = at_ns + np.cumsum(_TICK_NS + rng.integers(0, jitter_ns, most))
        due_ns = np.append(at_ns, ticks_ns[:-1]) + _TICK_NS
        at_ns = ends_ns + int(rng.integers(50)) * _READ_NS
        parts += [ticks_ns[due_ns < begins_ns], np.array([at_ns])]
    return np.concatenate(parts)
