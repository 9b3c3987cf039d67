"""Charts without a library: an SVG for the shapes, HTML for every text around it.

The SVG is stretched to its figure, whose texts are placed in per cent beside it: so one drawing
fits every width, and letters keep their size on a phone and on a wall. Strokes and dots keep theirs
too (``non-scaling-stroke``; a dot is a stroke of no length with round ends). Colours are the
stylesheet's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SIZE = 1000
_LETTER, _LINE, _LEAST_WIDE = 0.024, 0.06, 0.1
"""Width of a letter, height of a line and least width of a name on a phone, in shares of a figure.
"""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from values to [0, 1]. ``ticks`` are values with their texts."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    warp: Callable[[Floats], Floats] = lambda values: values

    def place(self, values: Sequence[float] | Floats) -> Floats:
        """Return where values stand, 0 at ``low`` and 1 at ``high``."""
        ends = self.warp(np.array([self.low, self.high], np.float64))
        where: Floats = (self.warp(np.asarray(values, np.float64)) - ends[0]) / (ends[1] - ends[0])
        return where

    @property
    def placed_ticks(self) -> list[tuple[float, str]]:
        """Where the ticks stand, with their texts."""
        places = self.place([value for value, _ in self.ticks]).tolist()
        return [(at, text) for at, (_, text) in zip(places, self.ticks, strict=True)]


def stylesheet() -> str:
    return files("agentx_replay.report").joinpath("page.css").read_text("utf-8")


def number(value: float) -> str:
    """A tick's text: 0.05, 20, 1,500, 40k, 1.2M."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M"
    if size >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:,.0f}" if size >= 1000 else f"{value:g}"


def linear_axis(
    low: float, high: float, wanted: int = 5, text: Callable[[float], str] = number
) -> Axis:
    """Return an axis from ``low`` to ``high`` with about ``wanted`` round ticks."""
    span = (high - low) or 1.0
    rough = span / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in _STEPS if s * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor((low + span) / step + 1e-9)
    values = [round(k * step, 12) for k in range(first, last + 1)]
    return Axis(low, low + span, tuple((value, text(value)) for value in values))


def log_axis(low: float, high: float, text: Callable[[float], str] = number) -> Axis:
    """Return a logarithmic axis of whole decades' thirds (1, 2, 5) that holds both values (> 0)."""
    marks = [m * 10.0**k for k in range(-9, 10) for m in (1.0, 2.0, 5.0)]
    start = max((m for m in marks if m <= low * (1 + 1e-9)), default=marks[0])
    stop = min((m for m in marks if m >= high * (1 - 1e-9)), default=marks[-1])
    if start == stop:
        stop = min(m for m in marks if m > start)
    inside = [m for m in marks if start <= m <= stop]
    if len(inside) > 8:
        inside = [m for m in inside if f"{m:e}".startswith("1.0")]
    return Axis(start, stop, tuple((value, text(value)) for value in inside), np.log10)


@dataclass(slots=True)
class Chart:
    """One figure being drawn. Shapes are added, then ``html`` gives the whole.

    ``x_title`` and ``y_title`` name what is drawn with its unit.
    """

    title: str
    x: Axis
    y: Axis
    x_title: str
    y_title: str
    note: str = ""
    height_px: int = 260
    _shapes: list[str] = field(default_factory=list)
    _texts: list[tuple[float, float, str, str]] = field(default_factory=list)
    """Texts of the figure with their places in shares of it, upwards, and their styles."""
    _names: list[tuple[float, float, float]] = field(default_factory=list)
    """Left and right ends and bottoms of the labels, in shares of the figure."""
    _legend: list[str] = field(default_factory=list)

    def line(self, xs: Floats, ys: Floats, style: str, legend: str = "") -> None:
        """Draw a line, broken where a value is NaN."""
        self._path(_line_path(self._points(xs, ys)), style, legend)

    def steps(self, edges: Floats, values: Floats, style: str, legend: str = "") -> None:
        """Draw values that hold between each two edges."""
        self.line(np.repeat(edges, 2)[1:-1], np.repeat(values, 2), style, legend)

    def dot(self, x: float, y: float, style: str, hover: str) -> None:
        """Draw one point, with a text for whoever points at it."""
        (at,) = self._points(np.array([x]), np.array([y]))
        self._shapes.append(
            f'<path class="dot {style}" d="M{at[0]:g} {at[1]:g}h0"><title>{escape(hover)}</title>'
            "</path>"
        )

    def ring(self, x: float, y: float, hover: str) -> None:
        """Draw a point that counts for nothing: hollow and grey."""
        self.dot(x, y, "ring", hover)
        self.dot(x, y, "ring-inside", hover)

    def bar(self, xs: tuple[float, float], ys: tuple[float, float], style: str) -> None:
        """Draw a line parallel to an axis between two points, as far as the axes go."""
        inside = np.clip(xs, self.x.low, self.x.high), np.clip(ys, self.y.low, self.y.high)
        self._path(_line_path(self._points(*inside)), style, "")

    def marks(self, xs: Floats, ys: Floats, style: str) -> None:
        """Draw many points alike."""
        self._path("".join(f"M{x:g} {y:g}h0" for x, y in self._points(xs, ys).tolist()), style, "")

    def uprights(self, xs: Floats, lows: Floats, tall: float, style: str) -> None:
        """Draw many short vertical lines, from ``lows`` upwards."""
        from_points, to_points = self._points(xs, lows), self._points(xs, lows + tall)
        path = "".join(
            f"M{x:g} {low:g}V{high:g}"
            for (x, low), (_, high) in zip(from_points.tolist(), to_points.tolist(), strict=True)
        )
        self._path(path, style, "")

    def rows(
        self, down: Floats, left: Floats, wide: Floats, style: str, thickness_px: float
    ) -> None:
        """Draw many horizontal bars, placed in shares of the figure; ``down`` is their middle."""
        bars = np.round(np.stack([left, down, wide], axis=1) * _SIZE, 1).tolist()
        path = "".join(f"M{x:g} {y:g}h{w:g}" for x, y, w in bars)
        if path:
            self._shapes.append(
                f'<path class="{style}" style="stroke-width:{thickness_px:.1f}px" d="{path}"/>'
            )

    def band(self, low: float, high: float, style: str) -> None:
        """Shade between two values of x, over the whole height."""
        left, right = np.clip(self.x.place([low, high]), 0, 1) * _SIZE
        self._shapes.append(
            f'<path class="fill {style}" d="M{left:g} 0H{right:g}V{_SIZE}H{left:g}Z"/>'
        )

    def vertical(self, x: float, style: str, text: str = "") -> None:
        """Draw a line over the whole height, named at its top."""
        (at,) = self.x.place([x])
        self._shapes.append(f'<path class="{style}" d="M{at * _SIZE:g} 0V{_SIZE}"/>')
        if text:
            self._texts.append((at, 1.0, text, "top"))

    def label(self, x: float, y: float, text: str, style: str = "", *, under: bool = False) -> None:
        """Write beside a point: above it to the right, or below it to the left (``under``: there
        first) where another name or the edge is in the way; nowhere if both places are taken.
        """
        (left,), (up,) = self.x.place([x]), self.y.place([y])
        wide = max(_LETTER * len(text), _LEAST_WIDE)
        above = ("", left, left + wide, up)
        below = (" flip", left - wide, left, up - _LINE)
        if style == "end" or left < wide:
            places = [above]
        elif left > min(0.88, 1.0 - wide):
            places = [below]
        else:
            places = [below, above] if under else [above, below]
        for side, start, end, bottom in places:
            if not any(_meet((start, end, bottom), other) for other in self._names):
                self._names.append((start, end, bottom))
                self._texts.append((left, up, text, f"label{side} {style}"))
                return

    def key(self, style: str, text: str) -> None:
        """Add to the legend."""
        self._legend.append(f'<li><i class="{style}"></i>{escape(text)}</li>')

    def html(self) -> str:
        """Return the figure."""
        texts = "".join(
            f'<span class="{style}" style="left:{left:.2%};top:{1 - up:.2%}">{escape(text)}</span>'
            for left, up, text, style in self._texts
        )
        x_texts = _ticks(self.x, "xt", "left")
        y_texts = _ticks(self.y, "yt", "bottom")
        legend = f'<ul class="legend">{"".join(self._legend)}</ul>' if self._legend else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return (
            f"<figure><figcaption><h4>{escape(self.title)}</h4>{note}{legend}</figcaption>"
            f'<div class="unit">{escape(self.y_title)}</div>'
            f'<div class="plot" style="height:{self.height_px}px">'
            f'<svg viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(self.title)}">{self._drawing()}</svg>'
            f"{x_texts}{y_texts}{texts}</div>"
            f'<div class="unit x">{escape(self.x_title)}</div></figure>'
        )

    def _drawing(self) -> str:
        grid = "".join(f"M0 {(1 - at) * _SIZE:g}H{_SIZE}" for at, _ in self.y.placed_ticks)
        return f'<path class="grid" d="{grid}"/>{"".join(self._shapes)}'

    def svg(self, stylesheet: str) -> str:
        """Return the figure as a picture of its own, for slides; without its legend."""
        left, top, wide, high = 64, 64, 640, self.height_px

        def text(x: float, y: float, said: str, anchor: str = "middle") -> str:
            at = f'x="{left + x * wide:.0f}" y="{top + (1 - y) * high:.0f}"'
            return f'<text {at} text-anchor="{anchor}">{escape(said)}</text>'

        texts = [
            text(-0.08, 1.14, self.title, "start"),
            text(-0.08, 1.07, self.y_title, "start"),
            text(1.0, -0.12, self.x_title, "end"),
            *(text(at, -0.055, said) for at, said in self.x.placed_ticks),
            *(text(-0.015, at - 0.01, said, "end") for at, said in self.y.placed_ticks),
            *(text(x + 0.012, y + 0.02, said, "start") for x, y, said, _ in self._texts),
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 736 {high + 128}">'
            f"<style>{stylesheet} text{{font:12px sans-serif;fill:var(--ink)}}</style>"
            '<rect width="100%" height="100%" fill="var(--card)"/>'
            f'<svg x="{left}" y="{top}" width="{wide}" height="{high}" overflow="visible" '
            f'viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none">{self._drawing()}</svg>'
            f"{''.join(texts)}</svg>"
        )

    def _path(self, path: str, style: str, legend: str) -> None:
        if path:
            self._shapes.append(f'<path class="{style}" d="{path}"/>')
        if legend:
            self.key(style, legend)

    def _points(self, xs: Floats, ys: Floats) -> Floats:
        """Return points in the SVG's units, y downwards; to a tenth, which no screen resolves."""
        return np.round(np.stack([self.x.place(xs), 1 - self.y.place(ys)], axis=1) * _SIZE, 1)


def _ticks(axis: Axis, style: str, side: str) -> str:
    return "".join(
        f'<span class="{style}" style="{side}:{at:.2%}">{escape(text)}</span>'
        for at, text in axis.placed_ticks
    )


def _meet(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Whether two lines of text, each from left to right with its bottom, overlap."""
    return one[0] < other[1] and other[0] < one[1] and abs(one[2] - other[2]) < _LINE


def _line_path(points: Floats) -> str:
    parts: list[str] = []
    broken = True
    for x, y in points.tolist():
        if math.isnan(x) or math.isnan(y):
            broken = True
            continue
        parts.append(f"{'M' if broken else 'L'}{x:g} {y:g}")
        broken = False
    return "".join(parts)
