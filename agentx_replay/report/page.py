"""The page: one HTML file that needs nothing else, neither network nor script.

Its content security policy forbids every load and every script, and the template escapes every
text, so what a server or a trace may have smuggled into a text stays a text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from agentx_replay.analysis.comparison import AtOneTarget, Comparison
from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run
from agentx_replay.errors import UsageError
from agentx_replay.report.chart import stylesheet
from agentx_replay.report.compare_brief import verdicts
from agentx_replay.report.compare_sections import compare_sections
from agentx_replay.report.curve_charts import STYLES, Series, curve_figure, latency_figures
from agentx_replay.report.disclosure import (
    disclosure_section,
    heading,
    part_of,
    started,
    title_of,
    urls_told,
)
from agentx_replay.report.evidence_sections import evidence_sections, speculation_section
from agentx_replay.report.level_charts import level_figures
from agentx_replay.report.numerals import (
    bounds,
    capital,
    rate,
    speed,
    throughput_unit,
)
from agentx_replay.report.run_sections import (
    busy_line,
    comparable_and_valid,
    go_on_lines,
    points_section,
    run_lines,
    sensitivity_section,
    starts_section,
    unmeasured_lines,
    valid_count,
)
from agentx_replay.report.system_section import system_sections
from agentx_replay.report.tables import Section
from agentx_replay.report.targets import target_note, target_text, warned_at
from agentx_replay.results.durable import disk_faults_explained, write_bytes_durably
from agentx_replay.text_format import escaped

_READING = (
    "Speed is how fast each agent feels: the tokens a second that nine in ten responses reach, "
    "first token excluded. Throughput is what the system delivers to all of them together. More "
    "agents at once give more throughput and less speed; this page shows the exchange."
)
_LATENCY = (
    "How latency grows towards the slowest. One line a level or start, named in the legend, "
    "and by its agents at its end where there is room; over the responses that ended "
    "well, token ITL over their tokens."
)


@dataclass(frozen=True, slots=True)
class _Card:
    """Throughput at one target; without a ``unit`` there is none."""

    target: str
    number: str
    unit: str
    under: Sequence[str]
    warned: Sequence[str]


_DOCTYPE = b"<!doctype html>"
_OF_ANOTHER_PAGE: dict[str, Any] = {"verdicts": (), "busy": "", "findings": (), "levels": ()}
"""What one kind of page has and another has not."""


@cache
def _template(begin: Callable[[str], str]) -> Any:
    """Return the template of a page of which ``begin`` writes the beginnings of sentences."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("agentx_replay.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["capital"] = begin
    return environment.get_template("page.html.j2")


def _rendered(begin: Callable[[str], str], **parts: Any) -> str:
    return str(_template(begin).render(_OF_ANOTHER_PAGE | parts, style=stylesheet()))


def write_page(path: Path, text: str) -> Path:
    """Write a page, escaped as in a terminal, and return where it is. Raises ``UsageError`` if the
    disk refuses, and for a file that is no page: it is not overwritten.
    """
    with disk_faults_explained(path):
        if path.exists() and not (path.is_dir() or (path.is_file() and _may_be_a_page(path))):
            raise UsageError(
                "page-would-overwrite", f"{path} exists and is no page", "choose another name"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_durably(path, escaped(text).encode())
    return path


def _may_be_a_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_DOCTYPE)).lower() in (_DOCTYPE, b"")


def corpus_page(name: str, sections: Sequence[Section]) -> str:
    """Return the page of a corpus."""
    return _rendered(
        capital,
        title=name,
        facts_of_run=[],
        badges=[],
        reading="What the corpus holds, and where it lies beside other corpora.",
        cards=[],
        before_levels=sections,
        after_levels=[],
    )


def compare_page(
    comparison: Comparison, price_source: str | None, more: Sequence[Section] = ()
) -> str:
    """Return the page of a comparison, with ``more`` sections after its own."""
    names = [each.name for each in comparison.contenders]
    pairs = zip(comparison.contenders, comparison.curves, strict=True)
    drawn = [
        Series(curve, each.run.points, each.name, style)
        for (each, curve), style in zip(pairs, cycle(STYLES))
    ]
    return _rendered(
        str,  # many begin with the name of a run
        title=" / ".join(names),
        facts_of_run=[f"{each.name}: {heading(each.run)}" for each in comparison.contenders],
        badges=[
            (comparison.did_same_work, "the same work"
             if comparison.did_same_work else "not the same work"),
            _comparable_badge([p for each in comparison.contenders for p in each.run.points]),
        ],
        verdicts=list(verdicts(comparison)),
        reading=_READING,
        cards=[card for at in comparison.targets for card in _ratio_cards(comparison, at)],
        before_levels=[Section("Curves", figures=curve_figure(drawn))],
        after_levels=[*compare_sections(comparison, price_source), *more],
    )  # fmt: skip


def _ratio_cards(comparison: Comparison, at: AtOneTarget) -> Iterator[_Card]:
    first, *others = zip(comparison.contenders, at.values, strict=True)
    for other, ratio, unlike in zip(others, at.ratios, comparison.unlike, strict=True):
        if ratio.throughput is None:
            missed = [
                f"{each.name}: {target_text(value)}"
                for each, value in (first, other)
                if value.throughput is None
            ]
            yield _Card(speed(at.target), "no ratio", "", missed, ())
            continue
        under = [
            *([f"95 % interval {bounds(ratio.interval, 2)}"] if ratio.interval else []),
            *([f"{ratio.cost.ratio:.2f}x per dollar"] if ratio.cost else []),
        ]
        warned = [
            *(["not of the same work"] if unlike else []),
            *([] if ratio.told_apart else ["no winner named"]),
        ]
        pair = f"{first[0].name} / {ratio.over}"
        yield _Card(speed(at.target), f"{ratio.throughput:.2f}x", pair, under, warned)


def page(
    run: Run,
    curve: Curve,
    of_objectives: Sequence[Section] = (),
    capacities: Sequence[str] = (),
) -> str:
    """Return the page of a run, with the sections ``of_objectives`` after its curve, and its
    ``capacities`` before all else.
    """
    shown = [(x, found) for x in run.points if (found := level_figures(x)) is not None]
    return _rendered(
        capital,
        title=title_of(run),
        facts_of_run=_facts(run),
        badges=_badges(run.points),
        verdicts=[(capital(said), "title") for said in capacities],
        busy=busy_line(run.points),
        findings=run_lines(run.points),
        reading=_READING,
        cards=_cards(curve, run.points) if curve.points else [],
        before_levels=[
            _curve_section(curve, run.points),
            starts_section(curve, run.starts),
            *of_objectives,
            points_section(run.points, [*unmeasured_lines(run), *go_on_lines(run)]),
            _latency_section(run),
        ],
        levels=[(level.name, found.html) for level, found in shown],
        after_levels=[
            speculation_section([(level, found.speculation) for level, found in shown]),
            *evidence_sections(run),
            sensitivity_section(run, curve),
            *system_sections(run, curve),
            disclosure_section(run),
        ],
    )


def _facts(run: Run) -> list[str]:
    return [
        f"scenario {part_of(run.sweep, 'scenario').get('name', 'unknown')}",
        f"corpus {part_of(run.sweep, 'corpus').get('name', 'unknown')}",
        *(urls_told(run) or ["no wire"]),
        *(["GPU count not given"] if run.gpus is None else []),
        run.path.resolve().name,
        started(run, "%Y-%m-%d %H:%M UTC") or "date unknown",
    ]


def _badges(points: Sequence[Point]) -> list[tuple[bool, str]]:
    all_valid = all(point.valid for point in points)
    badges = [(all_valid, valid_count(points)), _comparable_badge(points)]
    if any(point.texts(Kind.WARNING) for point in points):
        badges.append((False, "see the warnings"))
    return badges


def _comparable_badge(points: Sequence[Point]) -> tuple[bool, str]:
    fit = sum(map(comparable_and_valid, points))
    if fit == len(points):
        return True, "comparable on the same corpus"
    return False, "not every level is comparable" if fit else "not comparable"


def _cards(curve: Curve, points: Sequence[Point]) -> list[_Card]:
    unit = throughput_unit(curve.gpus, curve.headline_is)
    cards = []
    for value in curve.values:
        throughput, interval = value.throughput, bounds(value.interval)
        cards.append(
            _Card(
                speed(value.target),
                target_text(value) if throughput is None else rate(throughput),
                "" if throughput is None else unit,
                [*([f"95 % interval {interval}"] if interval else []), target_note(value, points)],
                warned_at(value, points),
            )
        )
    return cards


def _curve_section(curve: Curve, points: Sequence[Point]) -> Section:
    said = "No level is valid, so there is no curve, and no throughput at any speed."
    return Section(
        "Curve",
        reasons=[] if curve.points else [said],
        figures=curve_figure([Series(curve, points)]),
    )


def _latency_section(run: Run) -> Section:
    found = latency_figures(run)
    if not found:
        return Section("Latency")
    return Section("Latency", lead=[_LATENCY], figures=f'<div class="pair">{found}</div>')
