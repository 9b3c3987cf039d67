"""A run judged by an objective: its capacity, the goodput of its levels, and both together at the
capacity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentx_replay.analysis.capacity import (
    Capacity,
    StartCapacity,
    between_levels,
    capacity_of,
    outcome_of,
)
from agentx_replay.analysis.cost import tokens_per_dollar
from agentx_replay.analysis.goodput import Goodput, goodput
from agentx_replay.analysis.objective import Objective, objectives_of
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.starts import Interval, interval_of, mean_of_starts
from agentx_replay.results.layout import Measurement


@dataclass(frozen=True, slots=True)
class LevelGoodput:
    """Goodput of one start of a level in tokens/s, per GPU where all levels have a GPU count: all
    tokens and the output among them. None if the server does not tell its tokens.
    """

    measurement: Measurement
    goodput: Goodput
    total: float | None
    output: float | None


@dataclass(frozen=True, slots=True)
class GoodputMean:
    """Goodput of a level over its starts, as ``LevelGoodput``, with the interval of the mean."""

    concurrency: int
    starts: int
    attainment: float
    total: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class AtCapacity:
    """What a level of as many agents as the capacity gives, interpolated in ln N: throughput and
    goodput as in ``LevelGoodput``, share of requests that keep the objective, cache hit.
    """

    throughput: float | None
    goodput: float | None
    attainment: float | None
    cache_hit: float | None


@dataclass(frozen=True, slots=True)
class Judged:
    """A run by one objective. ``price`` is in dollars per GPU-hour, ``power`` in watts per GPU,
    None if not given; ``utilisation`` is the share of GPU-hours in which the system works.
    """

    capacity: Capacity
    levels: tuple[LevelGoodput, ...]
    there: AtCapacity | None
    gpus: int | None
    price: float | None
    power: float | None
    utilisation: float = 1.0

    @property
    def objective(self) -> Objective:
        return self.capacity.objective

    @property
    def means(self) -> list[GoodputMean]:
        """The levels over their starts, by rising concurrency."""
        by_level: dict[int, list[LevelGoodput]] = {}
        for each in self.levels:
            by_level.setdefault(each.measurement.concurrency, []).append(each)
        return [_mean(level, of) for level, of in sorted(by_level.items())]

    def per_dollar(self, tokens_per_s: float | None) -> float | None:
        """Return tokens per dollar of a rate per GPU; None without price or GPU count."""
        if tokens_per_s is None or self.price is None or self.gpus is None:
            return None
        return tokens_per_dollar(tokens_per_s, self.price, self.utilisation)

    def per_joule(self, tokens_per_s: float | None) -> float | None:
        """Return tokens per joule of a rate per GPU; None without power or GPU count."""
        if tokens_per_s is None or self.power is None or self.gpus is None:
            return None
        return tokens_per_s / self.power


def asked_objectives(run: Run) -> tuple[Objective, ...]:
    """Return the objectives that a run was measured with; none where it was without, or they are
    unreadable.
    """
    told = run.settings.get("slo")
    return objectives_of(list(map(str, told))) if isinstance(told, list) else ()


def judge(run: Run, objectives: Sequence[Objective]) -> tuple[Judged, ...]:
    return tuple(_judge(run, objective) for objective in objectives)


def _judge(run: Run, objective: Objective) -> Judged:
    gpus = run.gpus
    capacity = capacity_of([outcome_of(point, objective) for point in run.points], objective)
    levels = tuple(
        found
        for point in run.points
        if point.valid and (found := level_goodput(point, objective, gpus or 1)) is not None
    )
    return Judged(
        capacity,
        levels,
        _at_capacity(capacity, run.points, levels, gpus or 1),
        gpus,
        run.system.get("price.usd_per_gpu_hour"),
        run.system.get("power.watts_per_gpu"),
        run.system.get("price.utilisation") or 1.0,
    )


def level_goodput(point: Point, objective: Objective, divisor: int) -> LevelGoodput | None:
    """Return the goodput of a point; None if no window opened, or nothing was sent in it."""
    if point.requests is None or point.summary is None or not len(point.requests.well):
        return None
    found, headline = goodput(objective, point.requests), point.summary.rates.headline
    return LevelGoodput(
        point.measurement,
        found,
        headline.total_tokens_per_s * found.token_share / divisor if headline else None,
        headline.output_tokens_per_s * found.output_share / divisor if headline else None,
    )


def _mean(level: int, of: Sequence[LevelGoodput]) -> GoodputMean:
    totals = [each.total for each in of if each.total is not None]
    whole = len(totals) == len(of)
    return GoodputMean(
        level,
        len(of),
        fmean(each.goodput.requests.share or 0.0 for each in of),
        mean_of_starts(totals) if whole else None,
        interval_of(totals) if whole and min(totals) > 0 else None,
    )


def _at_capacity(
    capacity: Capacity, points: Sequence[Point], levels: Sequence[LevelGoodput], divisor: int
) -> AtCapacity | None:
    if capacity.agents is None:
        return None
    summaries = {point.measurement: point.summary for point in points if point.summary}
    headlines = {of: summary.rates.headline for of, summary in summaries.items()}
    read: tuple[Mapping[Measurement, float | None], ...] = (
        {of: each.total_tokens_per_s / divisor for of, each in headlines.items() if each},
        {each.measurement: each.total for each in levels},
        {each.measurement: each.goodput.requests.share for each in levels},
        {of: summary.cache_hit for of, summary in summaries.items()},
    )
    return AtCapacity(*(_over_starts(capacity.starts, each) for each in read))


def _over_starts(
    starts: Sequence[StartCapacity], read: Mapping[Measurement, float | None]
) -> float | None:
    """Return the mean over starts of what is read at each one's crossing; None if one has none."""
    found = [_between(start, read) for start in starts]
    known = [each for each in found if each is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _between(start: StartCapacity, read: Mapping[Measurement, float | None]) -> float | None:
    if start.good is None or start.bad is None or start.crossing is None:
        return None
    low = read.get(Measurement(start.good, start.start))
    if start.crossing == start.good:
        return low
    high = read.get(Measurement(start.bad, start.start))
    return between_levels(start.crossing, start.good, low, start.bad, high)
