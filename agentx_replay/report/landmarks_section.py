"""Corpora side by side: a drawing in letters for a terminal, a figure for the page, the shares."""

import math
from collections.abc import Iterator, Sequence

from agentx_replay.report.chart import Axis, Chart, log_axis, number
from agentx_replay.report.tables import Section
from agentx_replay.traces.landmarks import Landmarks, Middle

_COLUMNS = 22
_QUANTITIES = {
    "requests": "requests/session",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "gap_s": "gap, s",
}
_SHARES = {
    "reuse": "reuse within sessions",
    "reuse_across": "reuse with standing prompts shared",
    "subagent_sessions": "sessions with subagents",
}
_STYLES = ("s2", "s1", "s5")
_NOTE = (
    "public: 710 recordings of April 2026, which the official benchmark draws from; the median"
    " alone where no more is published. A standing prompt is tools and system, where a trace has"
    " its length"
)


def landmarks_sections(corpora: Sequence[Landmarks]) -> list[Section]:
    """Return where a corpus lies beside others: lengths and gaps as a drawing, then shares."""
    rows = [
        [title if at == 0 else "", of.name, *_drawn(getattr(of, name), _ends(corpora, name))]
        for name, title in _QUANTITIES.items()
        for at, of in enumerate(corpora)
    ]
    shares = [
        [title, *(_share(getattr(of, name)) for of in corpora)] for name, title in _SHARES.items()
    ]
    return [
        Section(
            "Beside other corpora",
            heads=("of", "corpus", "p50 ● p90 ┤ (log)", "p50", "p90"),
            rows=rows,
            figures="".join(_figures(corpora)),
        ),
        Section(
            "Shares beside other corpora",
            heads=("share", *(of.name for of in corpora)),
            rows=shares,
            notes=[_NOTE],
            rank=3,
        ),
    ]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _ends(corpora: Sequence[Landmarks], name: str) -> tuple[float, float]:
    """Return the least and the greatest positive value to draw."""
    middles = [getattr(of, name) for of in corpora]
    values = [value for of in middles for value in (of.p50, of.p90) if value]
    return (min(values), max(values)) if values else (1.0, 1.0)


def _drawn(of: Middle, ends: tuple[float, float]) -> tuple[str, str, str]:
    cells = [" "] * _COLUMNS
    first = _column(of.p50, ends)
    if of.p90 is not None:
        last = _column(of.p90, ends)
        cells[first : last + 1] = "─" * (last + 1 - first)
        cells[last] = "┤"
    cells[first] = "●"
    return "".join(cells), _value(of.p50), "–" if of.p90 is None else _value(of.p90)


def _column(value: float, ends: tuple[float, float]) -> int:
    low, high = (math.log(end) for end in ends)
    if value <= 0 or high == low:
        return 0
    return round((math.log(value) - low) / (high - low) * (_COLUMNS - 1))


def _value(value: float) -> str:
    return f"{value:,.1f}"


def _figures(corpora: Sequence[Landmarks]) -> Iterator[str]:
    ticks = tuple((at + 0.5, of.name) for at, of in enumerate(reversed(corpora)))
    for name, title in _QUANTITIES.items():
        low, high = _ends(corpora, name)
        chart = Chart(
            title,
            log_axis(low, high),
            Axis(0.0, float(len(corpora)), ticks),
            f"{title}: from the median to P90",
            "corpus",
            height_px=40 * len(corpora) + 20,
        )
        for at, of in enumerate(reversed(corpora)):
            style = _STYLES[(len(corpora) - 1 - at) % len(_STYLES)]
            middle: Middle = getattr(of, name)
            if middle.p50 <= 0:
                continue
            if middle.p90 is not None:
                chart.bar((middle.p50, middle.p90), (at + 0.5, at + 0.5), f"{style} thick")
            chart.dot(middle.p50, at + 0.5, style, f"{of.name}: median {number(middle.p50)}")
        yield chart.html()
