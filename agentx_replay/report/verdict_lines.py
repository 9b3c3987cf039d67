"""What is said of the verdicts on a run's points, in the same words on screen and page.

Not for deciding them (``validity.py``).
"""

from collections.abc import Sequence

from agentx_replay.analysis.caution import cautions, few_responses, throughputs_far_apart
from agentx_replay.analysis.curve import TargetValue
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.throughput import Throughput
from agentx_replay.report.numerals import FAR, rate


def comparability_lines(points: Sequence[Point]) -> list[str]:
    """Return why points are not comparable, and with what those are that are, each said once.

    The tool knows no fingerprint of the official corpus, so a point is comparable on a condition:
    with runs of its scenario on the same corpus. One that is not valid is compared with nothing.
    """
    reasons = dict.fromkeys(r for point in points for r in point.verdict.incomparable_reasons)
    of_all = [r for r in reasons if all(r in p.verdict.incomparable_reasons for p in points)]
    lines = [f"not comparable: {'; '.join(of_all)}"] if of_all else []
    for reason in reasons:
        if reason not in of_all:
            having = [p for p in points if reason in p.verdict.incomparable_reasons]
            lines.append(f"concurrency {_levels(having)} is not comparable: {reason}")
    fit = [point for point in points if comparable_and_valid(point)]
    if fit:
        rules = fit[0].facts.rules
        where = "" if len(fit) == len(points) else f"concurrency {_levels(fit)}: "
        corpus = f" {rules.corpus}" if rules.corpus else ""
        lines.append(
            f"{where}comparable with runs of scenario {rules.scenario} on the same corpus{corpus}"
        )
    return lines


def cautions_at(value: TargetValue, points: Sequence[Point]) -> list[str]:
    """Return the cautions on the levels that a value at a target was read off, one on several
    starts of a level once.
    """
    found: dict[tuple[int, str], list[Point]] = {}
    for point in points:
        if point.verdict.valid and point.concurrency in (value.at.between or ()):
            for caution in cautions(point):
                found.setdefault((point.concurrency, caution), []).append(point)
    return [
        f"caution: concurrency {_levels(having)}: {caution}"
        for (_, caution), having in found.items()
    ]


def valid_word(point: Point) -> str:
    """Return whether a point is valid, in a word; beside it that it is of few responses."""
    word = "yes" if point.verdict.valid else "NO"
    return f"{word}, few" if few_responses(point) else word


def windowed_text(point: Point, found: Throughput | None) -> str:
    """Return a windowed throughput, with a mark where it lies far from the headline."""
    text = rate(found.total_tokens_per_s if found else None)
    return text + FAR if throughputs_far_apart(point) else text


def comparable_and_valid(point: Point) -> bool:
    """Whether a point may be set beside others: rules kept, and the measurement sound."""
    return point.verdict.comparable and point.verdict.valid


def _levels(points: Sequence[Point]) -> str:
    return ", ".join(point.name for point in points)
