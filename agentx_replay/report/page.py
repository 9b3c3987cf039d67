"""The page: one HTML file that needs nothing else, neither network nor script.

Its content security policy forbids every load and every script, so what a server or a trace may
have smuggled into a text stays a text.
"""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import MeasuredLevel, Run
from agentx_replay.report.page_arrivals import arrivals_section
from agentx_replay.report.page_curve import curve_figure, latency_figures
from agentx_replay.report.page_level import LevelFigures, level_figures
from agentx_replay.report.page_text import (
    agreement_section,
    disclosure,
    fidelity_section,
    head,
    headline,
    instrument_section,
    paragraphs,
    points_section,
    sensitivity_section,
    servers_section,
    speculation_section,
    table,
)
from agentx_replay.report.server_words import server_text
from agentx_replay.report.start_lines import start_notes, start_rows

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_READING = (
    "Speed is how fast each agent feels: the tokens a second that nine in ten responses reach, "
    "first token excluded. Throughput is what the system delivers to all of them together. More "
    "agents at once give more throughput and less speed; this page shows the exchange."
)


def page(run: Run, curve: Curve) -> str:
    """Return the page of a run."""
    figures = [(level, level_figures(level)) for level in run.levels]
    shown = [(level, found) for level, found in figures if found is not None]
    parts = [
        head(run),
        paragraphs([_READING], "lead"),
        _curve_part(run, curve),
        f"<h2>Points</h2>{points_section(run)}{servers_section(run)}",
        _latency_part(run),
        _levels_part(shown),
        agreement_section(run.points),
        _server_part(run.points),
        speculation_section([(x, f.speculation) for x, f in shown]),
        f"<h2>Fidelity</h2>{fidelity_section(run)}",
        f"<h2>The instrument's own error</h2>{instrument_section(run)}{arrivals_section(run)}",
        _sensitivity_part(run, curve),
        f"<h2>Disclosure</h2>{disclosure(run, curve)}",
    ]
    return _document(run.path.resolve().name, "".join(parts))


_SERVER = (
    "From the server's own counters over the window. Its TTFT and ITL are of its histograms, for "
    "all its clients, interpolated within a bucket: what they differ by from this client's came "
    "about on the network, in a router, in the detokeniser or in the client."
)


def _server_part(points: Sequence[Point]) -> str:
    """Return what servers' own pages tell; nothing where none tells anything."""
    rows = [[point.name, text] for point in points if (text := server_text(point)) is not None]
    if not rows:
        return ""
    shown = table(("concurrency", "told"), rows) + paragraphs([_SERVER], "small")
    return f"<h3>What the server tells of itself</h3>{shown}"


def _document(title: str, body: str) -> str:
    style = files("agentx_replay.report").joinpath("page.css").read_text("utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} · agentx-replay</title><style>{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _curve_part(run: Run, curve: Curve) -> str:
    if not curve.points:
        return "<h2>Curve</h2>" + paragraphs(
            ["No level is valid, so there is no curve, and no throughput at any speed."], "reason"
        )
    return (
        f"{headline(curve, run.points)}<h2>Curve</h2>{curve_figure(curve)}"
        f"{_starts_part(run, curve)}"
    )


def _starts_part(run: Run, curve: Curve) -> str:
    """Return how far starts of a level lie apart; nothing where none has several."""
    heads, *rows = start_rows(curve, run.points)
    if not rows:
        return ""
    said = [f"{note[:1].upper()}{note[1:]}." for note in start_notes()]
    notes = paragraphs(said, "small")
    return f"<h3>From start to start</h3>{table(heads, rows)}{notes}"


def _latency_part(run: Run) -> str:
    found = latency_figures(run)
    text = (
        "How latency grows towards the slowest. One line a level or start, named in the legend, "
        "and by its concurrency at its end where there is room; over the responses that ended "
        "well, token ITL over their tokens."
    )
    return f'<h2>Latency</h2>{paragraphs([text])}<div class="pair">{found}</div>' if found else ""


def _levels_part(shown: Sequence[tuple[MeasuredLevel, LevelFigures]]) -> str:
    """Return the levels' figures, one level at a time to look at, by its radio button."""
    if not shown:
        return ""
    inputs, names, panels = [], [], []
    for number, (level, found) in enumerate(shown):
        checked = " checked" if number == len(shown) - 1 else ""
        inputs.append(
            f'<input type="radio" name="level" id="level-{number}" class="level-{number}"{checked}>'
        )
        names.append(f'<label for="level-{number}">{level.point.name}</label>')
        panels.append(f'<section class="panel-{number}">{found.html}</section>')
    rules = "".join(
        f".level-{n}:checked~.panels .panel-{n}{{display:block}}"
        f".level-{n}:checked~.names label[for=level-{n}]"
        "{background:var(--ink);color:var(--paper)}"
        f".level-{n}:focus-visible~.names label[for=level-{n}]{{outline:2px solid var(--blue)}}"
        for n in range(len(shown))
    )
    return (
        f'<h2>Level by level</h2><style>{rules}</style><div class="levels">{"".join(inputs)}'
        f'<p class="names">Concurrency {"".join(names)}</p>'
        f'<div class="panels">{"".join(panels)}</div></div>'
    )


def _sensitivity_part(run: Run, curve: Curve) -> str:
    if not curve.points:
        return ""
    targets = [value.at.target for value in curve.values]
    return f"<h2>Sensitivity to definitions</h2>{sensitivity_section(run, targets)}"
