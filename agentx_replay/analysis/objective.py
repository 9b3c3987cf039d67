"""Service objectives: what a person asks of a level, read from text.

    objective := [name '='] clause (',' clause)*
    clause    := metric [':' statistic] ('<=' | '>=') number [unit]

Read into one normal form: a bound on speed becomes one on ITL, since the p-th percentile of speed
is the inverse of the (100 - p)-th of ITL. Not for: values of a level (``goodput.py``).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentx_replay.errors import UsageError, shown
from agentx_replay.text_format import UNITS_S

Metric = Literal["itl", "full-itl", "ttft", "e2e", "play", "failed", "cut", "hit"]

MOST_FAILED = 0.01
"""A level with a greater share of failed or of cut requests is not valid (``findings.py``)."""
_RARE = 0.95
_EXCEEDING = 10
"""Responses beyond a percentile above the 95th, so that it is more than a few single ones."""

_CLAUSE = re.compile(
    r"(?P<metric>[a-z0-9-]+)\s*(?::\s*(?P<stat>[a-z0-9.]+))?\s*(?P<op><=|>=|=<|=>|<|>|==?)"
    r"\s*(?P<number>[^\s%a-z]*)\s*(?P<unit>[a-z%/]*)",
    re.ASCII | re.IGNORECASE,
)
_NAMED = re.compile(r"([^<>=]*)=(?!=)(.*)", re.DOTALL)
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,3})?)")
_UNITS = {
    "time": UNITS_S,
    "speed": {"": 1.0, "tok/s": 1.0, "tok/s/user": 1.0},
    "share": {"%": 0.01},
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a metric takes: its unit, the way of its bound, its usual statistic ("": it has none),
    and an example.
    """

    unit: Literal["time", "speed", "share"]
    upward: bool
    statistic: str
    example: str


_KINDS = {
    "itl": _Kind("time", False, "p90", "itl:p90<=33ms"),
    "full-itl": _Kind("time", False, "p90", "full-itl:p90<=33ms"),
    "ttft": _Kind("time", False, "p95", "ttft:p95<=5s"),
    "e2e": _Kind("time", False, "p95", "e2e:p95<=60s"),
    "speed": _Kind("speed", True, "", "speed:p25>=30tok/s"),
    "play": _Kind("time", False, "p90", "play:p90<=10m"),
    "failed": _Kind("share", False, "", "failed<=1%"),
    "cut": _Kind("share", False, "", "cut<=1%"),
    "hit": _Kind("share", True, "", "hit>=90%"),
}


@dataclass(frozen=True, slots=True)
class Clause:
    """A bound in seconds, or a share, on one metric of a level.

    ``share`` is the percentile bounded, 0.9 for P90; None for a mean, and for ``failed``, ``cut``
    and ``hit``, which are shares of a whole level. ``typed`` is what a person wrote; ``implied``
    says that nobody did.
    """

    metric: Metric
    share: float | None
    bound: float
    typed: str
    implied: bool = False

    @property
    def upward(self) -> bool:
        """Whether values above the bound keep it."""
        return _KINDS[self.metric].upward

    @property
    def name(self) -> str:
        """What it bounds: itl:p90, ttft:mean, failed."""
        if _KINDS[self.metric].unit == "share":
            return self.metric
        return f"{self.metric}:{'mean' if self.share is None else f'p{self.share * 100:.4g}'}"

    @property
    def text(self) -> str:
        """The clause in its normal form; behind what was typed if that was another."""
        sign = ">=" if self.upward else "<="
        normal = f"{self.name}{sign}{quantity(self.metric, self.bound)}"
        return f"{self.typed} ({normal})" if self.typed.startswith("speed") else normal

    @property
    def responses_needed(self) -> int:
        """How many responses a level must have for the percentile; 1 up to the 95th."""
        if self.share is None or self.share <= _RARE:
            return 1
        return round(_EXCEEDING / (1.0 - self.share))


@dataclass(frozen=True, slots=True)
class Objective:
    """Clauses that a level keeps together; ``name`` is empty where none was given.

    ``clauses`` end with the implied ones: the shares of failed and cut requests of a valid level.
    """

    name: str
    clauses: tuple[Clause, ...]

    @property
    def typed(self) -> tuple[Clause, ...]:
        return tuple(clause for clause in self.clauses if not clause.implied)

    @property
    def text(self) -> str:
        named = f"{self.name}: " if self.name else ""
        return named + ", ".join(clause.text for clause in self.typed)


def quantity(metric: Metric, value: float) -> str:
    """Return a value of a metric with its unit: 33.3ms, 5s, 1%."""
    if _KINDS[metric].unit == "share":
        return f"{value * 100:.4g}%"
    return f"{value * 1e3:.4g}ms" if value < 1.0 else f"{value:.4g}s"


def objectives_of(texts: Sequence[str]) -> tuple[Objective, ...]:
    """Read objectives, one a text. Raises ``UsageError`` for what is none, and for two of one
    name.
    """
    found = tuple(map(objective_of, texts))
    (name, times), *_ = Counter(each.name for each in found).most_common(1) or [("", 0)]
    if times > 1:
        raise UsageError(
            "objective-name-twice",
            f"{times} objectives have the name {shown(name)}" if name
            else f"{times} objectives have no name",
            "give each one of its own: --slo 'tier 1=itl:p90<=33ms' --slo 'tier 2=itl:p90<=20ms'",
        )  # fmt: skip
    return found


def objective_of(text: str) -> Objective:
    """Read one objective. Raises ``UsageError``."""
    named = _NAMED.fullmatch(text)
    name, rest = (named[1].strip(), named[2]) if named else ("", text)
    clauses = tuple(_clause(part.strip()) for part in rest.split(","))
    (bounded, times), *_ = Counter(clause.name for clause in clauses).most_common(1)
    if times > 1:
        raise UsageError(
            "objective-clause-twice",
            f"{shown(text)} bounds {bounded} {'twice' if times == 2 else f'{times} times'}",
            "leave the weaker clause out",
        )
    given = {clause.metric for clause in clauses}
    implied = tuple(
        Clause(metric, None, MOST_FAILED, "", implied=True)
        for metric in ("failed", "cut")
        if metric not in given
    )
    return Objective(name, clauses + implied)


def _clause(text: str) -> Clause:
    parts = _CLAUSE.fullmatch(text)
    if parts is None:
        raise UsageError(
            "objective-not-read",
            f"{shown(text)} is not a clause of an objective",
            "write METRIC:STATISTIC<=BOUND, as in --slo 'itl:p90<=33ms,ttft:p95<=5s'",
        )
    metric, operator = parts["metric"].lower(), parts["op"]
    kind = _KINDS.get(metric)
    if kind is None:
        raise UsageError(
            "objective-metric-unknown",
            f"{shown(metric)} is not a metric of an objective",
            f"bound one of {', '.join(_KINDS)}",
        )
    if operator != (">=" if kind.upward else "<="):
        raise UsageError(
            "objective-direction",
            f"{shown(text)}: {metric} is bounded with {'>=' if kind.upward else '<='}",
            f"write it as in {kind.example}",
        )
    bound = _bound(text, parts["number"], parts["unit"], kind)
    share = _share(text, metric, (parts["stat"] or "").lower(), kind)
    if metric in ("failed", "cut") and bound > MOST_FAILED:
        raise UsageError(
            "objective-of-invalid-levels",
            f"{shown(text)} allows more than {MOST_FAILED:.0%}, and a level with more is not valid",
            f"give at most {MOST_FAILED:.0%}",
        )
    if metric == "speed":
        slow = 0.9 if share is None else round(1.0 - share, 6)
        return Clause("itl", slow, 1.0 / bound, text)
    return Clause(metric, share, bound, text)  # type: ignore[arg-type]


def _bound(text: str, number: str, unit: str, kind: _Kind) -> float:
    """Return a bound in its metric's unit. Raises ``UsageError``."""
    units = _UNITS[kind.unit]
    if unit.lower() not in units:
        named = ", ".join(filter(None, units))
        raise UsageError(
            "objective-unit",
            f"{shown(text)}: {shown(unit)} is not its unit"
            if unit
            else f"{shown(text)} has no unit",
            f"give one of {named}, as in {kind.example}",
        )
    plain = re.fullmatch(r"\d{1,12}(\.\d{1,12})?|\.\d{1,12}", number, re.ASCII)
    bound = float(number) * units[unit.lower()] if plain else 0.0
    if bound <= 0.0:
        raise UsageError(
            "objective-bound",
            f"{shown(text)}: the bound is not a number above 0",
            f"write it as in {kind.example}",
        )
    if kind.unit == "share" and bound > 1.0:
        raise UsageError(
            "objective-share", f"{shown(text)}: a share is at most 100 %", "give at most 100%"
        )
    return bound


def _share(text: str, metric: str, statistic: str, kind: _Kind) -> float | None:
    """Return which percentile a clause bounds, as a share; None for none, and for the headline's
    speed.
    """
    if kind.unit == "share" and statistic:
        raise UsageError(
            "objective-statistic-unfit",
            f"{shown(text)}: {metric} is one number of a level",
            f"leave :{statistic} out, as in {kind.example}",
        )
    statistic = statistic or kind.statistic
    if not statistic or (statistic == "mean" and metric != "speed"):
        return None
    found = _PERCENTILE.fullmatch(statistic)
    share = round(float(found[1]) / 100, 6) if found else 0.0
    if not 0.01 <= share <= 0.999:
        raise UsageError(
            "objective-statistic",
            f"{shown(text)}: {shown(statistic)} is not a statistic of {metric}",
            "give p1 to p99.9" + ("" if metric == "speed" else ", or mean"),
        )
    return share
