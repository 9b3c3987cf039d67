"""The first screen of a comparison: the sentence that one says in the meeting, then a table."""

from collections.abc import Iterator, Sequence

from agentx_replay.analysis.comparison import (
    NOT_TOLD_APART,
    AtOneTarget,
    Comparison,
    Ratio,
    Sensitivity,
)
from agentx_replay.analysis.starts import Interval
from agentx_replay.report.brief import (
    NOT_COMPARABLE,
    Styled,
    at_target,
    comparable,
    wrapped_lines,
)
from agentx_replay.report.compare_sections import per_dollar, starts_left_out_lines
from agentx_replay.report.disclosure import heading
from agentx_replay.report.numerals import (
    ABSENT,
    agents,
    bounds,
    speed,
    target_text,
    throughput_unit,
)
from agentx_replay.report.tables import columns_lines
from agentx_replay.report.unmeasured import left_out
from agentx_replay.wording import counted


def compare_brief(comparison: Comparison, width: int) -> Iterator[Styled]:
    """Yield what was found of each other run, whether it may be said, and the values."""
    for each in comparison.contenders:
        yield from wrapped_lines(f"{each.name}: {heading(each.run)}", width)
    yield "", ""
    for number in range(len(comparison.contenders) - 1):
        yield from wrapped_lines(_sentence(comparison, number), width, "title")
    style = "" if comparison.did_same_work else "bad"
    yield from wrapped_lines(_caveats(comparison), width, style)
    yield "", ""
    yield from _table(comparison)
    yield "", ""
    for line in starts_left_out_lines(comparison):
        yield from wrapped_lines(line, width, "bad")
    for each in comparison.contenders:
        if out := left_out(each.run):
            yield from wrapped_lines(f"{each.name}: left out: {agents(out)}", width, "bad")
    unit = _unit(comparison)
    for at in comparison.targets:
        for contender, value in zip(comparison.contenders, at.values, strict=True):
            if value.throughput is None:
                said = f"at {speed(at.target)}: {contender.name} {at_target(value, unit)}"
                yield from wrapped_lines(said, width)


def _unit(comparison: Comparison) -> str:
    return throughput_unit(comparison.curves[0].gpus)


# --- the sentence --------------------------------------------------------------------------------


def _sentence(comparison: Comparison, number: int) -> str:
    """Return the ratio to one other run at the first target that both reach."""
    first = comparison.contenders[0].name
    reached = [
        (at, throughput)
        for at in comparison.targets
        if (throughput := at.ratios[number].throughput) is not None
    ]
    if not reached:
        other = comparison.contenders[number + 1].name
        return f"No target speed is reached by both {first} and {other}: no ratio."
    at, throughput = reached[0]
    ratio = at.ratios[number]
    ahead, behind, turned = first, ratio.over, False
    if throughput < 1.0 and ratio.told_apart:
        ahead, behind, turned = behind, ahead, True
    what = "tokens per GPU" if comparison.per_gpu else "tokens"
    parts = [f"{_times(throughput, ratio.interval, turned)} the {what}"]
    if ratio.cost is not None:
        parts.append(f"{_times(ratio.cost.ratio, ratio.cost_interval, turned)} per dollar")
    sides = (at.values[0], at.values[number + 1])
    starts = " and ".join(dict.fromkeys(str(len(each.values)) for each in sides))
    verdict = "" if ratio.told_apart else f": {_undecided(ratio)}"
    return (
        f"At {speed(at.target)} tok/s/user {ahead} gives {' and '.join(parts)} of {behind} "
        f"({starts} {'start' if starts == '1' else 'starts'} a side){verdict}."
    )


def _times(ratio: float, interval: Interval | None, turned: bool) -> str:
    """1.24x [1.1, 1.4], ``turned`` the ratio of the other one."""
    if turned:
        ratio = 1.0 / ratio
        interval = interval and Interval(1.0 / interval.high, 1.0 / interval.low)
    return f"{ratio:.2f}x {bounds(interval, 2)}".rstrip()


def _undecided(ratio: Ratio) -> str:
    why = ratio.no_interval or NOT_TOLD_APART
    needed = ratio.starts_needed
    more = f", about {needed} starts a side would name one" if needed else ""
    return f"{why}, no winner named{more}"


def _caveats(comparison: Comparison) -> str:
    """Return whether the work was the same, may be compared, and which definitions agree."""
    facts = [fact for fact in comparison.same_work if not fact.same]
    other = [f"{fact.name} {' / '.join(fact.said)}" for fact in facts]
    said = [f"Same work: {'no, ' + '; '.join(other) if other else 'yes'}."]
    words = [comparable(each.run.points) for each in comparison.contenders]
    why = [text.removeprefix(NOT_COMPARABLE) for text in words if text.startswith(NOT_COMPARABLE)]
    said.append(f"Comparable: {'no, ' + why[0] if why else 'yes'}.")
    return " ".join([*said, *(_order(each) for each in comparison.sensitivity[:1])])


def _order(sensitivity: Sensitivity) -> str:
    winners = [row.winner for row in sensitivity.rows if row.winner is not None]
    if not winners:
        return "No definition names a winner."
    same = sum(winner == sensitivity.rows[0].winner for winner in winners)
    return (
        f"The order holds under {same} of {counted(len(winners), 'definition')} that name a winner."
    )


# --- the table -----------------------------------------------------------------------------------


def _table(comparison: Comparison) -> Iterator[Styled]:
    rows = [
        [speed(at.target), contender.name, target_text(value), ratio, *per_dollar(contender, value)]
        for at in comparison.targets
        for contender, value, ratio in zip(
            comparison.contenders, at.values, _ratios(at), strict=True
        )
    ]
    first = comparison.contenders[0].name
    heads = ["at", "run", f"{_unit(comparison)} [95 %]", f"{first} / it", "Mtok/$", "$/Mtok"]
    columns: list[Sequence[str]] = [
        [head, *cells] for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    shown = [column for column in columns if set(column[1:]) != {ABSENT}]
    for number, line in enumerate(columns_lines(shown)):
        yield line, "" if number else "title"


def _ratios(at: AtOneTarget) -> list[str]:
    others = (ratio.throughput for ratio in at.ratios)
    return [ABSENT, *(ABSENT if each is None else f"{each:.3f}" for each in others)]
