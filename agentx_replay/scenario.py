"""The rules of a run, read from ``scenarios/*.toml``: how long, from where, with which caps.

A scenario is a value. What it means is in ``plan`` and ``replay``; what a run overrides is kept
beside it, because a run that overrides a rule is not comparable.
"""

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

from agentx_replay.errors import UsageError, shown
from agentx_replay.given_files import read_given
from agentx_replay.shipped import shipped_directory
from agentx_replay.text_format import UNITS_S, in_units

Reading = Literal["official", "faithful"]
SharedPrefix = Literal["session", "corpus"]
IdleFrom = Literal["barrier", "last_end"]
Order = Literal["corpus", "balanced"]

NOT_RULES = ("name", "fingerprint", "overridden")
"""What ``sweep.json`` has beside the rules of a scenario."""
MOST_TOML_BYTES = 2**20
"""Rules and options take a page or two."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The rules of a run; times in seconds.

    ``window_s`` is the measured window and ``grace_s`` what its drain may take. Every lane issues
    ``warmup_requests`` before it. A lane's first play starts between ``start_fraction`` of its
    session's span. ``system_idle_cap_s`` and ``session_idle_cap_s`` bound idle time,
    ``session_idle_from`` says from when a session's idle time counts as the window opens: from
    then, all alike (the official way), or from the session's own last end. ``primer_lead_s`` is
    the spread of the primers. ``max_sessions`` takes the first so many eligible
    sessions (None: all), in the ``order`` of the corpus or dealt so that the first are like all.
    ``reading`` says how recordings are read, ``shared_prefix`` among whom
    system prompts are shared. ``overridden`` names the rules that this run changed.
    """

    name: str
    window_s: float
    grace_s: float
    warmup_requests: int
    warmup_timeout_s: float
    seed: int
    start_fraction: tuple[float, float]
    primer_lead_s: float
    system_idle_cap_s: float
    session_idle_cap_s: float
    reading: Reading
    comparable: bool
    max_sessions: int | None = None
    shared_prefix: SharedPrefix = "session"
    session_idle_from: IdleFrom = "barrier"
    order: Order = "corpus"
    overridden: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """16 hex digits over every rule; two runs are comparable only where it is equal."""
        rules = dataclasses.asdict(self)
        del rules["overridden"]
        if self.order == "corpus":  # as it was before there was another
            del rules["order"]
        return hashlib.sha256(orjson.dumps(rules, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def override(self, **changes: Any) -> "Scenario":
        """Return the scenario with rules changed; what differs is named in ``overridden``.

        Raises ``UsageError`` for a rule that does not exist or a value it cannot have.
        """
        changes = _checked_rules(changes, "--override")
        changed = tuple(
            sorted({*self.overridden, *(k for k, v in changes.items() if v != getattr(self, k))})
        )
        return dataclasses.replace(self, **changes, overridden=changed)


def with_overrides(scenario: Scenario, overrides: Sequence[str]) -> Scenario:
    """Return the scenario with rules changed as ``RULE=VALUE`` says: a value in TOML, or a text.

    Raises ``UsageError`` for an unknown rule or a value it cannot have.
    """
    changes: dict[str, Any] = {}
    for override in overrides:
        rule, equals, text = override.partition("=")
        if not equals:
            raise UsageError(
                "override-without-value",
                f"override {override!r} has no value",
                "write --override RULE=VALUE",
            )
        changes[rule.strip()] = _rule_value(rule.strip(), text)
    return scenario.override(**changes) if changes else scenario


def rule_names() -> list[str]:
    return [each.name for each in dataclasses.fields(Scenario) if each.name not in NOT_RULES]


def _rule_value(rule: str, text: str) -> Any:
    """Return a value in TOML, or a duration with its unit; else the text itself."""
    seconds = in_units(text, UNITS_S) if rule.endswith("_s") else None
    if seconds is not None:
        return seconds
    try:
        found = parsed_toml(f"v = {text}")
    except ValueError:
        return text.strip()
    return found["v"] if len(found) == 1 else text.strip()


def scenario_names() -> list[str]:
    """Return the names of the shipped scenarios."""
    return sorted(path.stem for path in shipped_directory("scenarios").glob("*.toml"))


def parsed_toml(text: str) -> dict[str, Any]:
    """Return what a text in TOML holds. Raises ``ValueError``, in words, whatever is wrong."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's limit, which speaks of settings of the interpreter
        raise ValueError("it holds a number of thousands of digits") from None


def load_scenario(name_or_path: str) -> Scenario:
    """Read a shipped scenario by name, or a file of one's own by a path that ends in ``.toml``.

    Raises ``UsageError`` naming the file and the field that is wrong.
    """
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
    else:
        path = shipped_directory("scenarios") / f"{name_or_path}.toml"
        if name_or_path not in scenario_names():
            raise UsageError(
                "scenario-unknown",
                f"there is no scenario {shown(name_or_path)}",
                f"choose one of {', '.join(scenario_names())}, or give a .toml file",
            )
    what = f"scenario file {path}"
    raw = read_given(path, what, "check the path", most_bytes=MOST_TOML_BYTES)
    try:
        values = parsed_toml(raw.decode())
    except ValueError as error:
        raise UsageError(
            "scenario-not-toml", f"{what} is not TOML ({error})", "mend that line"
        ) from None
    return scenario_of(path.stem, values, str(path))


_NUMBERS = {
    "window_s": (0.001, 1e6),
    "grace_s": (0.0, 1e6),
    "warmup_requests": (0, 10_000),
    "warmup_timeout_s": (0.001, 1e6),
    "seed": (0, 2**63 - 1),
    "primer_lead_s": (0.0, 1e6),
    "system_idle_cap_s": (0.0, 1e9),
    "session_idle_cap_s": (0.0, 1e9),
    "max_sessions": (1, 10**9),
}
_WHOLE = {"warmup_requests", "seed", "max_sessions"}
_CHOICES = {
    "reading": get_args(Reading),
    "shared_prefix": get_args(SharedPrefix),
    "session_idle_from": get_args(IdleFrom),
    "order": get_args(Order),
}


def scenario_of(name: str, values: Mapping[str, Any], where: str) -> Scenario:
    """Return the scenario of these rules. Raises ``UsageError`` naming ``where`` one is wrong."""
    rules = _checked_rules(values, where)
    required = {
        field.name
        for field in dataclasses.fields(Scenario)
        if field.default is dataclasses.MISSING and field.name != "name"
    }
    for key in sorted(required - set(rules)):
        raise UsageError(
            "rule-missing",
            f"{where} lacks the rule {shown(key)}",
            "add it; scenarios/quick.toml has all",
        )
    return Scenario(name=name, **rules)


def _checked_rules(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = rule_names()
    for key in sorted(set(values) - set(known)):
        raise UsageError(
            "rule-unknown",
            f"{where} has an unknown rule {shown(key)}",
            f"use {', '.join(sorted(known))}",
        )
    return {key: _checked(key, value, where) for key, value in values.items()}


def _checked(key: str, value: Any, where: str) -> Any:
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        kinds = (int,) if key in _WHOLE else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            kind = "a whole number" if key in _WHOLE else "a number"
            raise UsageError(
                "rule-out-of-range",
                f"{where}: {key} is {shown(value)}",
                f"give {kind} between {low:g} and {high:g}",
            )
        return value
    if key in _CHOICES:
        if value not in _CHOICES[key]:
            raise UsageError(
                "rule-not-a-choice",
                f"{where}: {key} is {shown(value)}",
                f"choose one of {', '.join(_CHOICES[key])}",
            )
        return value
    if key == "start_fraction":
        return _fractions(value, where)
    if not isinstance(value, bool):
        raise UsageError(
            "rule-not-boolean", f"{where}: {key} is {shown(value)}", "give true or false"
        )
    return value


def _fractions(value: Any, where: str) -> tuple[float, float]:
    given = value if isinstance(value, list | tuple) else ()
    # Before it is a float: a whole number may be larger than any.
    if len(given) == 2 and all(type(each) in (int, float) and abs(each) <= 1 for each in given):
        low, high = map(float, given)
        if 0.0 <= low <= high <= 1.0:
            return low, high
    raise UsageError(
        "start-fraction-unfit",
        f"{where}: start_fraction is {shown(value)}",
        "give two fractions, as in [0.25, 0.75]",
    )
