"""Confidence of a sweep: lanes resampled, every number computed again, and the spread read off.

The unit is a lane over its whole window; lanes whose first session is the same form one cluster,
since they play the same work. Clusters are drawn with replacement (the cluster bootstrap of Davison
and Hinkley, *Bootstrap Methods and their Application*, 1997, section 3.8), P90 ITL and throughput
are computed from what was drawn, and percentiles of the replicates bound the interval. Levels draw
the same clusters as far as they have them, and so do systems that played the same plan, so that
ratios and interpolations keep what the levels have in common.

Percentiles of replicates lie too close together where clusters are few, so they are taken further
out, as far as Student's t is from the normal distribution (the expanded percentile interval of
Hesterberg, *What Teachers Should Know About the Bootstrap*, The American Statistician 69(4), 2015).

It says how far the result depends on which sessions were played. What differs from run to run only
repeated runs show. Starts of a level draw the same clusters, since they play the same sessions,
and each replicate of their mean is moved as far as Student's t lets a mean of so few runs lie from
the truth. To resample the starts instead would say too little: of two runs an interval could reach
from one to the other and no further, and hold the truth half of the time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.latency import response_itl
from agentx_replay.analysis.responses import Floats, Responses
from agentx_replay.analysis.throughput import headline_of, tokens_inside
from agentx_replay.analysis.window import Window, measured, sent_in

REPLICATES = 2000
CONFIDENCE = 0.95
MIN_CLUSTERS = 10
SEED = 20261016
_BLOCK = 256
_AT_ONCE = 128
_FURTHEST = 50.0
"""No measurement lies further from the truth than by a factor of e^50."""
_NS = 1_000_000_000

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LevelSample:
    """What one level, or a start of one, gives to be drawn from, cluster by cluster.

    ``clusters`` names them. ``lanes``, ``tokens`` (those that the headline throughput counts),
    ``first_send_ns`` and ``last_end_ns`` (the time it divides by: where it is windowed, the window)
    have shape ``(clusters,)``; ``itl_ns`` (rising) and ``itl_cluster`` have shape
    ``(responses with an ITL,)``.
    """

    concurrency: int
    clusters: tuple[str, ...]
    lanes: Floats
    tokens: Floats
    first_send_ns: Floats
    last_end_ns: Floats
    itl_ns: Floats
    itl_cluster: NDArray[np.int64]
    start: int = 1


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval; None on a side where it has no bound."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Interactivity and throughput (of the system) of one level in every replicate; NaN where a
    replicate drew nothing to measure. Shape ``(replicates,)``.
    """

    concurrency: int
    clusters: int
    interactivity: Floats
    throughput: Floats


def level_sample(
    responses: Responses,
    window: Window,
    concurrency: int,
    first_session: Mapping[int, str],
    start: int = 1,
) -> LevelSample:
    """Return what a level's start gives; ``first_session`` names the first session of each lane
    that sent.

    A lane that sent nothing is a cluster of its own: it is work of zero tokens, not no work.
    """
    names = [first_session.get(lane, f"lane {lane}") for lane in range(concurrency)]
    clusters = tuple(dict.fromkeys(names))
    index = {name: number for number, name in enumerate(clusters)}
    cluster_of_lane = np.array([index[name] for name in names])
    window_set = sent_in(responses, window)
    ok = window_set.where(measured(window_set))
    cluster = cluster_of_lane[ok.lane]
    if headline_of(window.nominal_s) == "windowed":
        of, counted = cluster_of_lane[window_set.lane], tokens_inside(window_set, window)
        first_send_ns = np.full(len(clusters), float(window.open_ns))
        last_end_ns = np.full(len(clusters), float(window.close_ns))
    else:
        of, counted = cluster, ok.prompt_tokens + ok.completion_tokens
        first_send_ns = np.full(len(clusters), np.inf)
        np.minimum.at(first_send_ns, cluster, ok.send_ns)
        last_end_ns = np.full(len(clusters), -np.inf)
        np.maximum.at(last_end_ns, cluster, ok.end_ns)
    tokens = np.bincount(of, weights=counted, minlength=len(clusters)).astype(np.float64)
    itl_ns = response_itl(ok).itl_ns
    order = np.argsort(itl_ns)[: np.count_nonzero(~np.isnan(itl_ns))]
    return LevelSample(
        concurrency=concurrency,
        clusters=clusters,
        lanes=np.bincount(cluster_of_lane).astype(np.float64),
        tokens=tokens,
        first_send_ns=first_send_ns,
        last_end_ns=last_end_ns,
        itl_ns=itl_ns[order],
        itl_cluster=cluster[order],
        start=start,
    )


def draw(
    clusters: Sequence[tuple[str, ...]], replicates: int = REPLICATES, seed: int = SEED
) -> list[Counts]:
    """Return, for each level, how often each of its clusters is drawn: ``(replicates, clusters)``.

    Each level draws as many clusters as it has, independently and equally likely, with
    replacement. The levels share one sequence of draws from all clusters: a level takes those that
    name a cluster of its own, in order, and fills up with draws of its own where too few do.
    """
    rng = np.random.default_rng(seed)
    everything = list(dict.fromkeys(name for names in clusters for name in names))
    shared = rng.integers(len(everything), size=(replicates, len(everything)))
    return [_drawn(rng, shared, everything, names) for names in clusters]


def _drawn(
    rng: np.random.Generator, shared: Counts, everything: list[str], names: tuple[str, ...]
) -> Counts:
    own = {name: number for number, name in enumerate(names)}
    place = np.array([own.get(name, -1) for name in everything])
    some = (shared[rows] for rows in _few_at_once(len(shared)))
    return np.concatenate([_times_drawn(rng, place[each], len(names)) for each in some])


def _few_at_once(replicates: int) -> list[slice]:
    """Cut replicates into runs so short that what is worked out from each value, or each cluster,
    of each of them takes a few megabytes.
    """
    return [slice(at, at + _AT_ONCE) for at in range(0, replicates, _AT_ONCE)]


def _times_drawn(rng: np.random.Generator, place: Counts, wanted: int) -> Counts:
    """Return how often each of ``wanted`` clusters is drawn; ``place`` holds the shared draws as
    numbers of clusters, −1 for another level's.
    """
    rank = np.cumsum(place >= 0, axis=1)
    replicate, column = np.nonzero((place >= 0) & (rank <= wanted))
    missing = np.repeat(np.arange(len(place)), np.maximum(wanted - rank[:, -1], 0))
    drawn = np.concatenate([place[replicate, column], rng.integers(wanted, size=len(missing))])
    replicate = np.concatenate([replicate, missing])
    flat = np.bincount(replicate * wanted + drawn, minlength=len(place) * wanted)
    return flat.reshape(len(place), wanted)


def replicate(sample: LevelSample, drawn: Counts, share: float = 0.9) -> Replicates:
    """Compute interactivity (at percentile ``share`` of the response ITL) and headline throughput
    of a level again for every replicate.

    Throughput is that of as many lanes as the level has: a replicate that drew clusters of more
    lanes is scaled down to them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        interactivity = _NS / drawn_percentile(sample.itl_ns, sample.itl_cluster, drawn, share)
        was_drawn = drawn > 0
        first_ns = np.where(was_drawn, sample.first_send_ns, np.inf).min(axis=1)
        last_ns = np.where(was_drawn, sample.last_end_ns, -np.inf).max(axis=1)
        scale = sample.lanes.sum() / (drawn @ sample.lanes)
        throughput = scale * (drawn @ sample.tokens) / ((last_ns - first_ns) / _NS)
    nothing = ~np.isfinite(interactivity)
    return Replicates(
        sample.concurrency,
        len(sample.clusters),
        np.where(nothing, np.nan, interactivity),
        np.where(nothing, np.nan, throughput),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LevelReplicates:
    """A level's replicates, those of its starts put together: by which sessions were drawn alone
    (``within`` one run), and with what differs between runs (``whole``). The two are the same
    where the level has one start.
    """

    within: Replicates
    whole: Replicates


def replicate_levels(
    samples: Sequence[LevelSample], draws: Sequence[Counts], seed: int = SEED, share: float = 0.9
) -> list[LevelReplicates]:
    """Return the replicates of every level of a run, by rising concurrency as its ``samples``.

    ``seed`` decides what differs between runs; it must be another one for each run compared.
    """
    found = []
    both = zip(samples, draws, strict=True)
    for _, group in groupby(both, key=lambda each: each[0].concurrency):
        level = list(group)
        within = mean_replicates([replicate(sample, drawn, share) for sample, drawn in level])
        if len(level) == 1:
            found.append(LevelReplicates(within, within))
            continue
        measured = [replicate(s, np.ones((1, len(s.clusters)), np.int64), share) for s, _ in level]
        weights = run_weights([sample.start for sample, _ in level], len(draws[0]), seed)
        found.append(LevelReplicates(within, between_runs(within, measured, weights)))
    return found


def mean_replicates(starts: Sequence[Replicates]) -> Replicates:
    """Return the mean of a level's starts in every replicate, as ``frontier.level_means`` has it.

    The clusters are the fewest of any.
    """
    if len(starts) == 1:
        return starts[0]  # to the last bit
    return Replicates(
        starts[0].concurrency,
        min(each.clusters for each in starts),
        1.0 / np.mean([1.0 / each.interactivity for each in starts], axis=0),
        np.mean([each.throughput for each in starts], axis=0),
    )


def run_weights(starts: Sequence[int], replicates: int, seed: int) -> Floats:
    """Return how much the deviation of each of two or more starts from their mean weighs:
    ``(replicates, starts)``.

    Of R starts each weighs z / √(R·χ²), with z from the normal distribution and χ² of R − 1
    degrees of freedom, so that the weighted sum of deviations is Student's t times the standard
    error of the mean. A start has the same z at every level: what was so in one pass over the
    levels and not in another moves all of them together.
    """
    degrees = len(starts) - 1
    normal = [np.random.default_rng([seed, n]).standard_normal(replicates) for n in starts]
    chi_squared = np.random.default_rng([seed, 0, degrees]).chisquare(degrees, replicates)
    weights: Floats = np.stack(normal, axis=1) / np.sqrt(len(starts) * chi_squared)[:, None]
    return weights


def between_runs(within: Replicates, measured: Sequence[Replicates], weights: Floats) -> Replicates:
    """Return replicates of a level moved by what differs between its starts.

    ``measured`` are the starts as they were, of one replicate each. Deviations are those of
    logarithms, so that no speed and no throughput falls below 0.
    """
    return replace(
        within,
        interactivity=within.interactivity
        * _moved([float(each.interactivity[0]) for each in measured], weights),
        throughput=within.throughput
        * _moved([float(each.throughput[0]) for each in measured], weights),
    )


def _moved(values: Sequence[float], weights: Floats) -> Floats:
    """Return by which factor each replicate is moved."""
    logs = np.log(values)
    moved: Floats = np.exp(np.clip(weights @ (logs - logs.mean()), -_FURTHEST, _FURTHEST))
    return moved


def drawn_percentile(
    values: Floats, cluster: NDArray[np.int64], drawn: Counts, share: float
) -> Floats:
    """Return, for every replicate, the percentile of the values its clusters hold.

    ``values`` rise; a value counts as often as its cluster was drawn; the rule is that of
    ``percentiles.py``. NaN for a replicate without a value. Blocks of values are counted first, so
    that the work grows with replicates × (clusters + a block), not with replicates × values.
    """
    if not len(values):
        return np.full(len(drawn), np.nan)
    blocks = -(-len(values) // _BLOCK)
    padding = blocks * _BLOCK - len(values)
    padded = np.pad(cluster, (0, padding), constant_values=drawn.shape[1])
    counts = np.pad(drawn, ((0, 0), (0, 1)))
    held = np.zeros((drawn.shape[1] + 1, blocks))
    np.add.at(held, (padded, np.arange(len(padded)) // _BLOCK), 1.0)
    upto_block: Floats = np.cumsum(counts @ held, axis=1, dtype=np.float64)
    total = upto_block[:, -1]
    rank = share * np.maximum(total - 1.0, 0.0)
    below = np.floor(rank)
    low, high = (
        values[_place(padded.reshape(blocks, _BLOCK), counts, upto_block, np.minimum(k, total - 1))]
        for k in (below, below + 1)
    )
    return np.where(total > 0, low + (rank - below) * (high - low), np.nan)


def _place(
    cluster_by_block: Counts, counts: Counts, upto_block: Floats, rank: Floats
) -> NDArray[np.int64]:
    """Return at which place each replicate's value of ``rank`` (counted from 0) stands."""
    rows = np.arange(len(counts))
    block = np.minimum((upto_block <= rank[:, None]).sum(axis=1), len(cluster_by_block) - 1)
    before = np.where(block > 0, upto_block[rows, block - 1], 0.0)
    place: NDArray[np.int64] = block * _BLOCK
    for some in _few_at_once(len(counts)):
        within = np.cumsum(counts[rows[some, None], cluster_by_block[block[some]]], axis=1)
        place[some] += (within <= (rank - before)[some, None]).sum(axis=1)
    return place


def interval(values: Floats, clusters: int) -> Interval:
    """Return the interval of replicates, of which −∞, +∞ and NaN lie below, above and on an unknown
    side of everything measured, drawn from that many clusters (at least 2).

    A side is None where more replicates than its tail holds may lie beyond it.
    """
    unknown, last, beyond = np.isnan(values), len(values) - 1, tail(clusters)
    lowest_first = np.sort(np.where(unknown, -np.inf, values))
    highest_last = np.sort(np.where(unknown, np.inf, values))
    low = lowest_first[math.floor(beyond * last)]
    high = highest_last[math.ceil((1.0 - beyond) * last)]
    return Interval(
        float(low) if np.isfinite(low) else None, float(high) if np.isfinite(high) else None
    )


def tail(clusters: int) -> float:
    """Return the share of replicates beyond each end: Φ(−t·√(n/(n−1))), towards 2.5 % for many.

    t is Student's 97.5 % point for n − 1 degrees of freedom, by the expansion 26.7.5 of Abramowitz
    and Stegun, good to 0.001 from 9 degrees on.
    """
    normal = NormalDist()
    z, degrees = normal.inv_cdf((1.0 + CONFIDENCE) / 2.0), clusters - 1
    t = (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )
    return normal.cdf(-t * math.sqrt(clusters / degrees))


def replicates_at(levels: Sequence[Replicates], target: float) -> Floats:
    """Return throughput at the target interactivity in every replicate.

    The rule is ``frontier.throughput_at``'s. Where a replicate misses the target, −∞ says that all
    its levels are too slow for it (the throughput lies below what was measured) and +∞ that all
    are faster. NaN where a replicate has no level to measure.
    """
    ordered = sorted(levels, key=lambda level: level.concurrency)
    speed = np.array([level.interactivity for level in ordered])
    throughput = np.array([level.throughput for level in ordered])
    best = np.where(speed == target, throughput, -np.inf).max(axis=0)
    for a, b in pairwise(range(len(ordered))):
        brackets = (speed[a] - target) * (speed[b] - target) < 0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (target - speed[a]) / (speed[b] - speed[a])
            value = throughput[a] + share * (throughput[b] - throughput[a])
        best = np.where(brackets, np.fmax(best, value), best)
    missed = np.isneginf(best)
    all_faster = (np.isnan(speed) | (speed > target)).all(axis=0)
    nothing = np.isnan(speed).all(axis=0)
    best = np.where(missed & all_faster, np.inf, best)
    return np.where(nothing, np.nan, best)
