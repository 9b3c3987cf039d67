"""The findings of a run as lines, in the same words on screen and page.

Not for deciding or wording them (``findings.py``).
"""

from collections.abc import Iterable, Sequence

from agentx_replay.analysis.curve import TargetValue
from agentx_replay.analysis.findings import Finding, Kind
from agentx_replay.analysis.point import Point, point_findings
from agentx_replay.analysis.throughput import Throughput, headline_of
from agentx_replay.report.numerals import FAR, rate

_SAID = {
    Kind.INVALID: " is not valid: ",
    Kind.INCOMPARABLE: " is not comparable: ",
    Kind.WARNING: ": WARNING: ",
    Kind.BROKEN: ": NOT KEPT: ",
}


def finding_lines(findings: Iterable[Finding], kind: Kind) -> list[str]:
    """Return the findings of a kind, one a line, with the levels that each is of."""
    return [
        f"concurrency {', '.join(map(str, each.levels))}{_SAID[kind]}{each.text}"
        for each in findings
        if each.kind is kind
    ]


def comparability_lines(points: Sequence[Point]) -> list[str]:
    """Return why points are not comparable, and with what those are that are, each said once.

    The tool knows no fingerprint of the official corpus, so a point is comparable on a condition:
    with runs of its scenario on the same corpus. One that is not valid is compared with nothing.
    """
    found = [each for each in point_findings(points) if each.kind is Kind.INCOMPARABLE]
    of_all = [each for each in found if len(each.levels) == len(points)]
    lines = [f"not comparable: {'; '.join(each.text for each in of_all)}"] if of_all else []
    lines += finding_lines((each for each in found if each not in of_all), Kind.INCOMPARABLE)
    fit = [point for point in points if comparable_and_valid(point)]
    if fit:
        rules = fit[0].facts.rules
        names = ", ".join(point.name for point in fit)
        where = "" if len(fit) == len(points) else f"concurrency {names}: "
        corpus = f" {rules.corpus}" if rules.corpus else ""
        lines.append(
            f"{where}comparable with runs of scenario {rules.scenario} on the same corpus{corpus}"
        )
    return lines


def warnings_at(value: TargetValue, points: Sequence[Point]) -> list[str]:
    """Return the warnings on the levels that a value at a target was read off, one on several
    starts of a level once.
    """
    read_off = value.at.between or ()
    found = [point for point in points if point.valid and point.concurrency in read_off]
    return finding_lines(point_findings(found), Kind.WARNING)


def valid_word(point: Point) -> str:
    """Return whether a point is valid, in a word; beside it that it is of few responses."""
    word = "yes" if point.valid else "NO"
    return f"{word}, few" if point.has("few-responses") else word


def throughput_names(points: Sequence[Point]) -> tuple[str, str]:
    """Return what the headline throughput of points is called, and the one beside it."""
    windowed = points and headline_of(points[0].facts.rules.window_s) == "windowed"
    return ("window", "overall") if windowed else ("overall", "window")


def beside_text(point: Point, found: Throughput | None) -> str:
    """Return the throughput beside the headline, with a mark where the two lie far apart."""
    text = rate(found.total_tokens_per_s if found else None)
    return text + FAR if point.has("throughputs-far-apart") else text


def comparable_and_valid(point: Point) -> bool:
    """Whether a point may be set beside others: rules kept, and the measurement sound."""
    return point.comparable and point.valid
