"""The page: one HTML file that needs nothing else, neither network nor script.

Its content security policy forbids every load and every script, and the template escapes every
text, so what a server or a trace may have smuggled into a text stays a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run
from agentx_replay.report.chart import stylesheet
from agentx_replay.report.curve_charts import curve_figure, latency_figures
from agentx_replay.report.disclosure import (
    disclosure_section,
    part_of,
    started,
    title_of,
    urls_told,
)
from agentx_replay.report.evidence_sections import evidence_sections, speculation_section
from agentx_replay.report.level_charts import level_figures
from agentx_replay.report.numerals import (
    NOT_REACHED,
    bounds,
    capital,
    rate,
    speed,
    target_note,
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
    warned_at,
)
from agentx_replay.report.system_section import system_sections
from agentx_replay.report.tables import Section

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
    """Throughput at one target; without a ``unit`` it is not reached."""

    target: str
    number: str
    unit: str
    under: Sequence[str]
    warned: Sequence[str]


def page(run: Run, curve: Curve) -> str:
    """Return the page of a run."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("agentx_replay.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["capital"] = capital
    shown = [(x, found) for x in run.points if (found := level_figures(x)) is not None]
    return environment.get_template("page.html.j2").render(
        style=stylesheet(),
        title=title_of(run),
        facts_of_run=_facts(run),
        badges=_badges(run.points),
        busy=busy_line(run.points),
        findings=run_lines(run.points),
        reading=_READING,
        cards=_cards(curve, run.points) if curve.points else [],
        before_levels=[
            _curve_section(curve, run.points),
            starts_section(curve, run.starts),
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
    fit = sum(map(comparable_and_valid, points))
    all_fit, none_fit = fit == len(points), fit == 0
    badges = [
        (all_valid, valid_count(points)),
        (all_fit, "comparable on the same corpus" if all_fit else "not comparable" if none_fit
         else "not every level is comparable"),
    ]  # fmt: skip
    if any(point.texts(Kind.WARNING) for point in points):
        badges.append((False, "see the warnings"))
    return badges


def _cards(curve: Curve, points: Sequence[Point]) -> list[_Card]:
    unit = throughput_unit(curve.gpus, curve.headline_is)
    cards = []
    for value in curve.values:
        throughput, interval = value.throughput, bounds(value.interval)
        cards.append(
            _Card(
                speed(value.target),
                NOT_REACHED if throughput is None else rate(throughput),
                "" if throughput is None else unit,
                [*([f"95 % interval {interval}"] if interval else []), target_note(value)],
                warned_at(value, points),
            )
        )
    return cards


def _curve_section(curve: Curve, points: Sequence[Point]) -> Section:
    said = "No level is valid, so there is no curve, and no throughput at any speed."
    return Section(
        "Curve", reasons=[] if curve.points else [said], figures=curve_figure(curve, points)
    )


def _latency_section(run: Run) -> Section:
    found = latency_figures(run)
    if not found:
        return Section("Latency")
    return Section("Latency", lead=[_LATENCY], figures=f'<div class="pair">{found}</div>')
