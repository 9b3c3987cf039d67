"""What compared systems cost and on which assumptions, in what they differ, and whose numbers they
are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from agentx_replay.analysis.comparison import AtOneTarget, Comparison, Contender
from agentx_replay.analysis.economy import Economy, economies
from agentx_replay.analysis.system import Difference, differences
from agentx_replay.report.disclosure import differing_facts
from agentx_replay.report.numerals import ABSENT, agents, rate, ratios, speed, throughput_unit
from agentx_replay.report.system_section import fact, label, questions_line
from agentx_replay.report.tables import Section
from agentx_replay.text_format import counted

_KINDS = {
    "total": "of all tokens",
    "input": "of input",
    "output": "of output",
    "uncached": "without reused input",
}


# --- what differs --------------------------------------------------------------------------------


def differences_section(comparison: Comparison) -> Section:
    """Return the facts in which the systems differ, then what else is on record of one alone."""
    runs = [each.run for each in comparison.contenders]
    facts = [(_key(each), _values(each)) for each in found_differences(comparison)]
    facts += differing_facts([run.sweep for run in runs])
    names = ", ".join(each.name for each in comparison.contenders)
    silent = [each.name for each in comparison.contenders if not each.run.system.facts]
    lead = [f"no facts of the system of {', '.join(silent)} (--system)."] if silent else []
    notes = [f"As said and recorded of {names}, in this order."] if facts else []
    return Section("What differs", lead=lead, facts=facts, notes=notes)


def differing_line(comparison: Comparison) -> str:
    """Return the facts in which the systems differ in a line; none where nobody gave any."""
    found = [each for each in found_differences(comparison) if each.key not in _LONG]
    of_all = [f"{_key(each)} {_values(each)}" for each in found if None not in each.values]
    rest = len(found) - len(of_all)
    said = [*of_all, *([f"{counted(rest, 'fact')} not given of all (--full)"] if rest else [])]
    return f"The systems differ in {'; '.join(said)}." if said else ""


_LONG = ("launch", "recipe", "image", "measured_by", "price.usd_per_gpu_hour", "price.source",
         "price.covers", "price.date", "power.source", "power.watts_per_gpu")  # fmt: skip
"""What a line has no place for, or another one says."""


def found_differences(comparison: Comparison) -> list[Difference]:
    systems = [each.run.system for each in comparison.contenders]
    levels = {point.concurrency for each in comparison.contenders for point in each.run.points}
    return differences(systems, levels)


def _key(of: Difference) -> str:
    return f"{label(of.key)} at {agents(of.levels)}" if of.levels else label(of.key)


def _values(of: Difference) -> str:
    return " / ".join(fact(of.key, value) for value in of.values)


# --- what it costs -------------------------------------------------------------------------------


def cost_sections(comparison: Comparison, price_source: str | None) -> list[Section]:
    """Return what tokens cost at each target that a system reaches, and the assumptions."""
    priced = any(each.price is not None for each in comparison.contenders)
    told = any(
        each.run.system.get("peak_pflops") or each.run.system.get("disagg")
        for each in comparison.contenders
    )
    found = [_cost_section(comparison, at) for at in comparison.targets if priced or told]
    assumed = [_assumptions(comparison, price_source)] if priced or _powered(comparison) else []
    return [*(each for each in found if each.rows), *assumed]


def _powered(comparison: Comparison) -> bool:
    return any(each.power is not None for each in comparison.contenders)


def _cost_section(comparison: Comparison, at: AtOneTarget) -> Section:
    names = [each.name for each in comparison.contenders]
    rows = [
        [what, *map(rate, values), *ratios(values)]
        for what, values in _rows(economies(comparison, at.target), comparison.curves[0].gpus)
        if any(value is not None for value in values)
    ]
    heads = ("", *names, *(f"{names[0]} / {name}" for name in names[1:]))
    return Section(f"Cost at {speed(at.target)} tok/s/user", heads=heads, rows=rows)


def _rows(found: Sequence[Economy], gpus: int | None) -> Iterator[tuple[str, list[float | None]]]:
    unit = throughput_unit(gpus)
    for kind, name in _KINDS.items():
        yield f"{unit} {name}", [of.tokens_per_s[kind] for of in found]
    for kind, name in _KINDS.items():
        yield f"$/Mtok {name}", [of.dollars_per_million[kind] for of in found]
    yield "tokens a day and GPU", [of.tokens_per_day for of in found]
    yield "tok/s per peak PFLOP/s", [of.per_peak_pflops for of in found]
    yield "output tok/s per decode GPU", [of.output_per_decode_gpu for of in found]
    yield "input tok/s per prefill GPU", [of.input_per_prefill_gpu for of in found]


_ASSUMED = (
    ("kind", "price.kind"), ("source", "price.source"), ("date", "price.date"),
    ("covers", "price.covers"),
)  # fmt: skip
_OF_POWER = (("kind", "power.kind"), ("source", "power.source"))


def _assumptions(comparison: Comparison, price_source: str | None) -> Section:
    contenders = comparison.contenders
    rows = []
    if any(each.price is not None for each in contenders):
        rows.append(["$/GPU-hour", *(rate(each.price) for each in contenders)])
        rows += [
            [f"its {name}", *(_of_price(each, key, price_source) for each in contenders)]
            for name, key in _ASSUMED
        ]
        rows.append(["utilisation", *(f"{each.utilisation:g}" for each in contenders)])
    if _powered(comparison):
        rows.append(["W/GPU", *(rate(each.power) for each in contenders)])
        for name, key in _OF_POWER:
            said = (_said(each, key, each.power, "power.watts_per_gpu") for each in contenders)
            rows.append([f"its {name}", *said])
    names = [each.name for each in contenders]
    return Section("Assumptions", heads=("", *names), rows=rows, notes=list(_minded(comparison)))


def _of_price(of: Contender, key: str, price_source: str | None) -> str:
    if of.price is None:
        return ABSENT
    said = _said(of, key, of.price, "price.usd_per_gpu_hour")
    return price_source if key == "price.source" and price_source and said == _NOT_GIVEN else said


def price_lines(comparison: Comparison, price_source: str | None) -> Iterator[str]:
    """Yield the price of each system, with what is assumed of it: what is the same once."""
    prices: dict[str, list[str]] = {}
    for each in comparison.contenders:
        if each.price is not None:
            said = dict.fromkeys(_of_price(each, key, price_source) for _, key in _ASSUMED)
            given = [text for text in said if text != _NOT_GIVEN] or ["kind and source not given"]
            assumed = "; ".join([*given, f"utilisation {each.utilisation:g}"])
            prices.setdefault(assumed, []).append(f"{each.name} {rate(each.price)}")
    for assumed, of in prices.items():
        yield f"$/GPU-hour: {', '.join(of)} ({assumed})"


_NOT_GIVEN = "not given"


def _said(of: Contender, key: str, number: float | None, of_number: str) -> str:
    """Return what the facts say of a number; nothing of one that is not theirs."""
    if number is None:
        return ABSENT
    own = of.run.system.get(of_number) == number
    return fact(key, of.run.system.get(key) if own else None)


def _minded(comparison: Comparison) -> Iterator[str]:
    if any(each.price is not None for each in comparison.contenders):
        if comparison.unpriced:
            yield f"no price for {', '.join(comparison.unpriced)}: dollars are not compared."
        for table, what in (("price.kind", "prices"), ("power.kind", "powers")):
            kinds = [each.run.system.get(table) for each in comparison.contenders]
            words = dict.fromkeys(str(kind).split()[0].strip(",:;") for kind in kinds if kind)
            if len(words) > 1:
                yield f"{what} are of different kinds: {', '.join(words)}."
        yield "utilisation: share of GPU-hours in which a system works; 1 unless said."


# --- whose numbers -------------------------------------------------------------------------------


def questions_section(comparison: Comparison) -> Section:
    facts = [(each.name, questions_line(each.run)) for each in comparison.contenders]
    return Section("Five questions", facts=facts)


def economies_json(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the economy of each system at each target as plain values."""
    names = [each.name for each in comparison.contenders]
    return [
        {"target": at.target, "run": name, **asdict(each)}
        for at in comparison.targets
        for name, each in zip(names, economies(comparison, at.target), strict=True)
    ]
