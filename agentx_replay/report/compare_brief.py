"""What one says of a comparison in a meeting, then the values: at most 20 lines.

The verdicts also open the page of a comparison (``page.py``). Not for the rest, which is in
``compare_sections.py``.
"""

from collections.abc import Iterable, Iterator, Sequence

from agentx_replay.analysis.comparison import (
    Comparison,
    Contender,
)
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.point import run_findings
from agentx_replay.analysis.same_work import Fact, alone_said
from agentx_replay.analysis.starts import Interval
from agentx_replay.report.brief import NOT_COMPARABLE, Styled, comparable, wrapped_lines
from agentx_replay.report.compare_sections import (
    RATIO_PER_DOLLAR,
    UNLIKE,
    compare_sections,
    no_winner,
    starts_left_out_lines,
    target_rows,
    told_columns,
)
from agentx_replay.report.cost_section import differing_line, price_lines
from agentx_replay.report.disclosure import heading
from agentx_replay.report.numerals import (
    agents,
    speed,
    throughput_unit,
    within,
)
from agentx_replay.report.run_sections import (
    finding_lines,
    go_on_lines,
    unmeasured_lines,
)
from agentx_replay.report.tables import Section, tables_side_by_side
from agentx_replay.report.targets import by_target, target_line, turned_back
from agentx_replay.text_format import counted

_MOST_LINES = 19
"""Lines of the first screen but for the last, which says how to see the rest."""
_MOST_SENTENCES = 2


def compare_brief(
    comparison: Comparison, width: int, price_source: str | None = None
) -> Iterator[Styled]:
    """Yield what was found of each other run, whether it may be said, what differs, the values."""
    said = [*verdicts(comparison, _MOST_SENTENCES), (differing_line(comparison), "")]
    top = [line for text, style in said if text for line in wrapped_lines(text, width, style)]
    notes = [
        [(text, "")] if text.startswith("agentx-replay ") else wrapped_lines(text, width, style)
        for text, style in _notes(comparison, price_source)
    ]
    table = _table(comparison, _MOST_LINES - len(top) - 4, width)
    yield from (*top, ("", ""), *table, ("", ""))
    yield from _fitting(notes, _MOST_LINES - len(top) - len(table) - 2)


def _fitting(notes: Sequence[Sequence[Styled]], most: int) -> Iterator[Styled]:
    """Yield as many whole notes as ``most`` lines hold."""
    for note in notes:
        most -= len(note)
        if most < 0:
            return
        yield from note


def whole_comparison(
    comparison: Comparison, price_source: str | None, more: Sequence[Section] = ()
) -> list[Section]:
    """Return everything known of a comparison, what one says of it first, ``more`` at the end."""
    said = [text for text, _ in verdicts(comparison)]
    return [Section("In short", lead=said), *compare_sections(comparison, price_source), *more]


# --- the sentences -------------------------------------------------------------------------------


def verdicts(comparison: Comparison, most: int | None = None) -> Iterator[Styled]:
    """Yield a sentence on each other run, of ``most`` of them at most, then whether the work was
    the same, what the runs may be compared with, and which definitions agree. What prevents a
    comparison stands first.
    """
    lacking = comparison.without_level
    for each in lacking:
        yield f"{each.name} has no valid level, so there is no ratio to it.", "bad"
    others = [
        number
        for number, other in enumerate(comparison.contenders[1:])
        if comparison.contenders[0] not in lacking and other not in lacking
    ]
    for number in others[:most]:
        found = _reached(comparison, number)
        style = "bad" if _prevents(comparison, number) else "title"
        yield f"{_prevents(comparison, number)}{_sentence(comparison, number, found)}", style
    if others:
        yield _caveats(comparison, _reached(comparison, others[0])), ""


def _reached(comparison: Comparison, number: int) -> int | None:
    """Return the first target, by its place, that the first run and another one both reach."""
    reached = (at.ratios[number].throughput is not None for at in comparison.targets)
    return next((place for place, both in enumerate(reached) if both), None)


def _prevents(comparison: Comparison, number: int) -> str:
    """Return what keeps a ratio from being one of two systems, to stand before it; else nothing."""
    facts = comparison.unlike[number]
    first, other = comparison.contenders[0].name, comparison.contenders[number + 1].name
    if not facts:
        same = f"{first} and {other} have the same records: a run compared with itself. "
        return same if comparison.same_records[number] else ""
    known = any(fact.same is False for fact in facts)
    return (
        f"{first} and {other} {'did not do' if known else 'are not known to have done'} the same "
        f"work ({'; '.join(map(_fact, facts))}): a ratio of two runs, not of two systems. "
    )


def _fact(fact: Fact) -> str:
    return f"{fact.name} {' / '.join(fact.said)}"


def _sentence(comparison: Comparison, number: int, reached: int | None) -> str:
    first = comparison.contenders[0].name
    if reached is None:
        other = comparison.contenders[number + 1].name
        return f"No target speed is reached by both {first} and {other}: no ratio."
    at = comparison.targets[reached]
    ratio = at.ratios[number]
    turned = ratio.told_apart and ratio.throughput is not None and ratio.throughput < 1.0
    ahead, behind = (ratio.over, first) if turned else (first, ratio.over)
    what = "tokens per GPU" if comparison.per_gpu else "tokens"
    parts = [f"{_times(ratio.throughput, ratio.interval, turned)} the {what}"]
    if ratio.cost is not None:
        parts.append(f"{_times(ratio.cost.ratio, ratio.cost_interval, turned)} per dollar")
    sides = (at.values[0], at.values[number + 1])
    starts = " and ".join(dict.fromkeys(str(len(each.values)) for each in sides))
    verdict = "" if ratio.told_apart else f": {no_winner(ratio)}"
    return (
        f"At {speed(at.target)} tok/s/user {ahead} gives {' and '.join(parts)} of {behind} "
        f"({starts} {'start' if starts == '1' else 'starts'} a side){verdict}."
    )


def _times(ratio: float | None, interval: Interval | None, turned: bool) -> str:
    """1.24x [1.1, 1.4], ``turned`` the ratio of the other one."""
    value = ratio or 0.0
    if turned:
        value = 1.0 / value
        interval = interval and Interval(1.0 / interval.high, 1.0 / interval.low)
    return within(f"{value:.2f}x", interval, 2)


def _caveats(comparison: Comparison, reached: int | None) -> str:
    said = []
    if comparison.did_same_work:
        at = "".join(f" (plan {alone})" for of in comparison.plans if (alone := alone_said(of)))
        said.append(f"Same work: yes{at}.")
    words = [comparable(each.run.points) for each in comparison.contenders]
    why = dict.fromkeys(
        word.removeprefix(NOT_COMPARABLE) for word in words if word.startswith(NOT_COMPARABLE)
    )
    said.append(f"Comparable: {'no, ' + '; '.join(why) if why else 'yes'}.")
    if reached is not None:
        said.append(_order([row.winner for row in comparison.sensitivity[reached].rows]))
    return " ".join(said)


def _order(of_definitions: Sequence[str | None]) -> str:
    winners = [winner for winner in of_definitions if winner is not None]
    if not winners:
        return "No definition names a winner."
    headline, named = of_definitions[0], counted(len(winners), "definition")
    if headline is None:
        return f"The headline names no winner, {named} of {len(of_definitions)} would."
    return f"The order holds under {winners.count(headline)} of {named} that name a winner."


# --- the table -----------------------------------------------------------------------------------


def _table(comparison: Comparison, most: int, width: int) -> list[Styled]:
    """Return a row for each target and run, at the targets that most runs reach if all have no
    room in ``most`` rows.
    """
    by_reach = sorted(
        comparison.targets, key=lambda at: -sum(x.throughput is not None for x in at.values)
    )
    shown = by_reach[: max(1, most // len(comparison.contenders))]
    unit = throughput_unit(comparison.curves[0].gpus)
    rows = [
        {"at": speed(at.target)} | row
        for at in comparison.targets
        if at in shown
        for row in target_rows(comparison, at, unit)
    ]
    for row in rows:
        del row[RATIO_PER_DOLLAR]  # the sentence has it
    heads, cells = told_columns(rows[:most])
    return [
        (line, style)
        for above, below in tables_side_by_side(heads, cells, width)
        for lines, style in ((above, "title"), (below, ""))
        for line in lines
    ]


# --- below it ------------------------------------------------------------------------------------


def _notes(comparison: Comparison, price_source: str | None) -> Iterator[Styled]:
    """Yield what to mind of the table, the gravest first; what several runs have in common once."""
    ratios = (
        r for at in comparison.targets for r in zip(at.ratios, comparison.unlike, strict=True)
    )
    if any(unlike and ratio.throughput is not None for ratio, unlike in ratios):
        yield f"{UNLIKE} not of the same work", "bad"
    yield from ((line, "") for line in price_lines(comparison, price_source))
    for each in comparison.without_level:
        yield from ((line, "bad") for line in _nothing_valid(each))
    yield from ((line, "bad") for line in starts_left_out_lines(comparison))
    measured = [each for each in comparison.contenders if each.run.curve_points]
    missing = [(each.name, each.run.left_out) for each in measured]
    for said, names in _together((name, agents(out)) for name, out in missing if out):
        yield f"{names}: left out: {said}", "bad"
    for said, names in _together(_turned_back(comparison)):
        yield f"{names}: {said}", "warning"
    for said, names in _together(_not_reached(comparison)):
        yield f"{names}: {said}", ""
    for said, names in _together((each.name, heading(each.run)) for each in comparison.contenders):
        yield f"{names}: {said}", ""


def _together(said_of: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what is said of runs, each once, with the names of those it is said of."""
    names: dict[str, list[str]] = {}
    for name, said in said_of:
        names.setdefault(said, []).append(name)
    return ((said, ", ".join(of)) for said, of in names.items())


def _turned_back(comparison: Comparison) -> Iterator[tuple[str, str]]:
    for each, curve in zip(comparison.contenders, comparison.curves, strict=True):
        for value in curve.values:
            if said := turned_back(value):
                yield each.name, f"at {speed(value.target)} {'; '.join(said)}"


def _not_reached(comparison: Comparison) -> Iterator[tuple[str, str]]:
    for each, curve in zip(comparison.contenders, comparison.curves, strict=True):
        missed = [value for value in curve.values if curve.points and value.throughput is None]
        for targets, value in by_target(missed, each.run.points):
            yield each.name, f"at {targets}: {target_line(value, '', each.run.points)}"


def _nothing_valid(of: Contender) -> Iterator[str]:
    """Yield why no level of a run is valid, and the command that measures again or says more."""
    reasons = finding_lines(run_findings(of.run.points), Kind.INVALID)
    yield from (f"{of.name}: {line}" for line in (*reasons, *unmeasured_lines(of.run)))
    yield from go_on_lines(of.run) or [f"agentx-replay report {of.run.path} --full"]
