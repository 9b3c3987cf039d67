"""The client machines of a level that several played: how their clocks went, and whether what they
saw of one server is alike.

Lanes are dealt evenly, so that a machine whose latencies stand apart from the others' tells of its
network or its own load, not of the server.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.client_lag import InstrumentReport, Samples, Timestamps, examine
from agentx_replay.analysis.latency import response_itl, ttft_ns
from agentx_replay.analysis.responses import Responses, Window, measured
from agentx_replay.units import NS_PER_S

MAX_DRIFT_NS = 10_000_000
MAX_APART = 0.025
MIN_LANES = 8
"""With fewer lanes a machine, resampling them says too little of how they vary."""
_DRAWS = 200
_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """A machine that played, as it is on record.

    ``clock_ahead_ns`` is how far its clock was ahead of the driver's, give or take
    ``clock_bound_ns``; ``clock_drift_ns`` by how much that grew in the level (None: it was lost).
    """

    host: str
    workers: int
    cores: int
    python: str
    version: str
    ray: str
    clock_ahead_ns: int
    clock_bound_ns: int
    clock_drift_ns: int | None
    round_trip_p50_s: float
    round_trip_p99_s: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A P90 in s and its 95 % interval, from lanes drawn with replacement."""

    p90_s: float
    least_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class MachineLatency:
    """What one machine saw, and its own error; None where it has nothing to show."""

    lanes: int
    response_itl: Interval | None
    ttft: Interval | None
    instrument: InstrumentReport | None = None


def machine_of(lanes: NDArray[np.int64], machines: Sequence[MachineFacts]) -> NDArray[np.int64]:
    """Return the index of the machine that played each lane: worker k of all plays lanes k, k + W,
    … on machine k mod their number.
    """
    workers = sum(machine.workers for machine in machines)
    return lanes % workers % len(machines)


def machine_latencies(
    window_set: Responses,
    window: Window,
    samples: Samples | None,
    timestamps: Timestamps,
    machines: Sequence[MachineFacts],
) -> tuple[MachineLatency, ...]:
    """Return what each machine saw of the window's measured responses, and its own error."""
    found = []
    for index in range(len(machines)):
        own = window_set.where(machine_of(window_set.lane, machines) == index)
        ok = own.where(measured(own))
        kept = None if samples is None else samples.where(samples.worker % len(machines) == index)
        found.append(
            MachineLatency(
                lanes=len(np.unique(ok.lane)),
                response_itl=interval(response_itl(ok).itl_ns, ok.lane),
                ttft=interval(ttft_ns(ok), ok.lane),
                instrument=examine(own, window, kept, timestamps) if kept is not None else None,
            )
        )
    return tuple(found)


def close_sends(
    send_ns: NDArray[np.float64], lane: NDArray[np.int64], machines: Sequence[MachineFacts]
) -> tuple[int, int]:
    """Return how many sends followed one of another machine by less than the error of the two
    clocks, so that their order is unknown; and how many sends there were.
    """
    order = np.argsort(send_ns, kind="stable")
    of, gaps_ns = machine_of(lane[order], machines), np.diff(send_ns[order])
    bound_ns = np.array([machine.clock_bound_ns for machine in machines])[of]
    unsure = (np.diff(of) != 0) & (gaps_ns < bound_ns[1:] + bound_ns[:-1])
    return int(unsure.sum()), len(of)


def interval(values_ns: NDArray[np.float64], lanes: NDArray[np.int64]) -> Interval | None:
    """Return the P90 of values and its interval; None if they are of fewer than 8 lanes."""
    there = ~np.isnan(values_ns)
    values_s = values_ns[there] / NS_PER_S
    names, lane = np.unique(lanes[there], return_inverse=True)
    if len(names) < MIN_LANES:
        return None
    order = np.argsort(values_s)
    values_s, lane = values_s[order], lane[order]
    random = np.random.default_rng(0)
    drawn = random.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_DRAWS)
    upto = (np.cumsum(times[lane]) for times in drawn)
    p90s = [values_s[np.searchsorted(each, _SHARE * each[-1])] for each in upto]
    least_s, most_s = np.quantile(p90s, (0.025, 0.975))
    return Interval(float(np.quantile(values_s, _SHARE)), float(least_s), float(most_s))


def apart(intervals: Sequence[Interval | None]) -> Iterator[tuple[int, Interval, Interval]]:
    """Yield each machine whose interval lies more than 2.5 % outside all others', with the nearest
    of those.
    """
    for index, own in enumerate(intervals):
        others = [each for at, each in enumerate(intervals) if at != index and each is not None]
        if own is None or not others:
            continue
        below, above = max(others, key=lambda i: i.most_s), min(others, key=lambda i: i.least_s)
        if own.least_s > below.most_s * (1 + MAX_APART):
            yield index, own, below
        elif own.most_s < above.least_s / (1 + MAX_APART):
            yield index, own, above
