"""What is to be kept in mind of a point that is valid: reasons to trust its numbers less.

No verdict: a caution changes neither validity nor the exit code.
"""

from collections.abc import Sequence
from itertools import pairwise

from agentx_replay.analysis.metrics import PromptLengths, unused_cache_counts
from agentx_replay.analysis.point import Point
from agentx_replay.results.run_directory import PointStatus

FEW_RESPONSES = 30
FAR_APART = 0.20
"""Relative difference of windowed and headline throughput above which neither stands alone."""
FAR_LONGER = 1.5
"""Ratio of two neighbouring levels' mean prompts above which they did not do the same work."""
_LENGTHS_OFF = 0.01
"""What prompt lengths that are off move a hit rate by at most: a valid point's are by 0.5 %."""
_ALIKE_TOKENS = 64
"""Tokens a prompt that are alike beyond the blocks shared as recorded: what a template opens every
conversation and a message with."""
FEW_ANSWERS = 0.5
"""Share of the answers to be fed back below which a run is more of words than of live history."""
_NOT_TO_ITS_END = (PointStatus.INTERRUPTED, PointStatus.RUNNING)


def few_responses(point: Point) -> bool:
    """Whether the P90 ITL is of so few responses that one or two of them decide it."""
    itl = point.summary.response_itl if point.summary is not None else None
    return itl is not None and itl.count < FEW_RESPONSES


def throughputs_far_apart(point: Point) -> bool:
    """Whether windowed and headline throughput differ by over 20 %."""
    difference = point.summary.rates.difference if point.summary is not None else None
    return difference is not None and abs(difference.relative) > FAR_APART


def known_before(point: Point) -> str | None:
    """Return that the server cached more than it was sent in the level; None where it did not, or
    what it answered was sent as well, whose length is its own.
    """
    summary = point.summary
    if summary is None or summary.prompt_lengths is None or point.facts.rules.live_history:
        return None
    hit, possible = summary.cache_hit, summary.cache_hit_theoretical
    if hit is None or possible is None:
        return None
    if hit <= possible + _LENGTHS_OFF + _ALIKE_TOKENS / summary.prompt_lengths.mean_tokens:
        return None
    return (
        f"the server knew these prompts already: it found {hit:.1%} of them in its cache, where an "
        f"unlimited one, empty at first, would hold {possible:.1%}"
    )


def token_itl_trusted(point: Point) -> bool:
    """Whether the client was fast enough for token ITL and event gaps to be believed."""
    return point.instrument is None or point.instrument.token_itl_trusted


def cautions(point: Point) -> tuple[str, ...]:
    """Return every caution on a point; none where nothing was measured, or the point was not played
    to its end, which says more than what follows from it.
    """
    if point.summary is None or point.status in _NOT_TO_ITS_END:
        return ()
    found = []
    itl, difference = point.summary.response_itl, point.summary.rates.difference
    if itl is not None and few_responses(point):
        responses = "1 response" if itl.count == 1 else f"{itl.count} responses"
        found.append(f"P90 of {responses}: under {FEW_RESPONSES} a P90 is one or two responses")
    if difference is not None and throughputs_far_apart(point):
        found.append(
            f"windowed throughput is {difference.relative:+.1%} from the headline, "
            f"over {FAR_APART:.0%}"
        )
    if (unfed := _answers_lacking(point)) is not None:
        found.append(unfed)
    if (unused := unused_cache_counts(point.summary.counts)) is not None:
        found.append(unused)
    if point.agreement is not None and point.agreement.disagreement is not None:
        found.append(point.agreement.disagreement)
    if (known := known_before(point)) is not None:
        found.append(known)
    return tuple(found)


def _answers_lacking(point: Point) -> str | None:
    """Return that live history fed back no answer, or few; None where it did, or was not asked."""
    of = point.fidelity
    if of is None or not point.facts.rules.live_history:
        return None
    if not of.answers_due:
        return "no answer was fed back: no prompt went on from one that was answered in the window"
    if of.answers_fed_back >= FEW_ANSWERS * of.answers_due:
        return None
    return (
        f"answers fed back: {of.answers_fed_back} of {of.answers_due}; the others were words, as "
        "the responses failed, had no content (reasoning and tool calls are not said) or no usage"
    )


def curve_cautions(points: Sequence[Point]) -> tuple[str, ...]:
    """Return what is to be kept in mind of the curve through the valid ``points``, of any order.

    Lane k plays the k-th session, so few lanes see other sessions than many.
    """
    told: dict[int, list[PromptLengths]] = {}
    for point in points:
        lengths = point.summary.prompt_lengths if point.summary is not None else None
        if point.verdict.valid and lengths is not None:
            told.setdefault(point.concurrency, []).append(lengths)
    means = {level: _mean_prompt(told[level]) for level in sorted(told)}
    apart = {
        level
        for pair in pairwise(means)
        if max(means[at] for at in pair) > FAR_LONGER * min(means[at] for at in pair)
        for level in pair
    }
    if not apart:
        return ()
    lengths_at = [f"{means[level]:,.0f} tokens at {level}" for level in means if level in apart]
    return (
        "neighbouring levels did not do the same work, since few lanes play other sessions than "
        f"many: mean prompt by concurrency {', '.join(lengths_at)}",
    )


def _mean_prompt(starts: Sequence[PromptLengths]) -> float:
    """Return the mean prompt of a level over all responses of its starts, in tokens."""
    return sum(of.count * of.mean_tokens for of in starts) / sum(of.count for of in starts)
