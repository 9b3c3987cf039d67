"""The facts of a measured system that no client can see: hardware, topology, engine, price, power.

Each key is declared once, in ``FACTS``; a dot stands for a table of TOML. Keys are InferenceX's
where it has one. Facts are what somebody says: nothing here asks a server, and nothing is guessed.
Secrets are hidden as facts are read.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from difflib import get_close_matches
from itertools import product
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta

from agentx_replay.errors import UsageError, shown
from agentx_replay.results.launch_line import hidden_launch, hidden_text
from agentx_replay.secret_texts import HIDDEN, is_secret_field, without_secrets, worth_hiding

_Text = Annotated[str, Meta(max_length=20_000, description="a text")]
_Count = Annotated[int, Meta(ge=0, le=10**12, description="a whole number from 0")]
_Number = Annotated[int, Meta(ge=1, le=10**6, description="a whole number from 1")]
_Amount = Annotated[float, Meta(gt=0, lt=1e12, description="a number above 0")]
_Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0 and at most 1")]
_Flag = Annotated[bool, Meta(description="true or false")]
_Day = Annotated[date, Meta(description="a day such as 2026-10-09")]
_PriceKind = Annotated[
    str,
    Meta(
        pattern=r"^(cost|rent|revenue)\b",
        description="cost, rent or revenue, and then what more there is to say",
    ),
]
_PowerKind = Annotated[
    str,
    Meta(
        pattern=r"^(measured|modelled)\b",
        description="measured or modelled, and then of what",
    ),
]


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a fact: its type and ``unit``, and where vLLM's and SGLang's own pages tell
    it. ``checked``: what the server tells is held against it. ``configures``: it says how a system
    is set up. ``answers`` names the need of one of the five questions that it meets.
    """

    kind: Any
    unit: str = ""
    vllm: str = ""
    sglang: str = ""
    checked: bool = False
    configures: bool = False
    answers: str = ""

    @property
    def wanted(self) -> str:
        """What a value has to be, in words."""
        (meta,) = self.kind.__metadata__
        return f"{meta.description}{self.unit and f', {self.unit}'}"


FACTS: Mapping[str, Fact] = {
    "name": Fact(_Text),
    "hw": Fact(_Text, configures=True, answers="unit: GPU"),
    "gpus": Fact(_Number, configures=True, answers="unit: count"),
    "nodes": Fact(_Number),
    "topology": Fact(_Text),
    "hbm_gb": Fact(_Amount, "GB of a GPU"),
    "host_dram_gb": Fact(_Amount, "GB of a node"),
    "peak_pflops": Fact(_Amount, "10^15 operations/s of a GPU"),
    "model": Fact(_Text, vllm="model_config.model", sglang="model_path", checked=True),
    "image": Fact(_Text, answers="repeatability: build"),
    "framework": Fact(_Text, configures=True),
    "engine_commit": Fact(_Text, configures=True, answers="repeatability: build"),
    "launch": Fact(_Text, answers="repeatability: start"),
    "recipe": Fact(_Text, answers="repeatability: start"),
    "precision": Fact(
        _Text, vllm="model_config.quantization", sglang="quantization", configures=True,
        answers="repeatability: precision",
    ),
    "kv_precision": Fact(
        _Text, vllm="cache_config.cache_dtype", sglang="kv_cache_dtype", configures=True
    ),
    "tp": Fact(
        _Number, vllm="parallel_config.tensor_parallel_size", sglang="tp_size", checked=True,
        configures=True,
    ),
    "pp": Fact(
        _Number, vllm="parallel_config.pipeline_parallel_size", sglang="pp_size", checked=True,
        configures=True,
    ),
    "ep": Fact(_Number, sglang="ep_size", checked=True, configures=True),
    "dp_attention": Fact(_Flag, sglang="enable_dp_attention", checked=True, configures=True),
    "dcp_size": Fact(
        _Number, vllm="parallel_config.decode_context_parallel_size", checked=True, configures=True
    ),
    "pcp_size": Fact(
        _Number, vllm="parallel_config.prefill_context_parallel_size", checked=True,
        configures=True,
    ),
    "block_size": Fact(
        _Number, "tokens", vllm="cache_config.block_size", sglang="page_size", checked=True
    ),
    "kv_cache_pool_tokens": Fact(_Count, sglang="max_total_num_tokens", checked=True),
    "kv_offloading": Fact(_Text, configures=True),
    "kv_offload_backend.name": Fact(_Text, configures=True),
    "kv_offload_backend.version": Fact(_Text),
    "offload_gb_per_gpu": Fact(_Amount, "GB of a GPU", configures=True),
    "spec_decoding": Fact(
        _Text, vllm="speculative_config.method", sglang="speculative_algorithm", configures=True
    ),
    "draft_tokens": Fact(_Count, vllm="speculative_config.num_speculative_tokens", configures=True
    ),
    "acceptance": Fact(_Text),
    "disagg": Fact(_Flag, configures=True),
    "prefill_gpus": Fact(_Count, configures=True),
    "decode_gpus": Fact(_Count, configures=True),
    "router": Fact(_Text),
    "price.usd_per_gpu_hour": Fact(_Amount),
    "price.kind": Fact(_PriceKind),
    "price.source": Fact(_Text),
    "price.date": Fact(_Day),
    "price.utilisation": Fact(_Share),
    "price.covers": Fact(_Text),
    "power.watts_per_gpu": Fact(_Amount),
    "power.kind": Fact(_PowerKind),
    "power.source": Fact(_Text),
    "measured_by": Fact(_Text, answers="origin: who"),
    "snapshot": Fact(_Day),
    "notes": Fact(_Text),
}  # fmt: skip
"""Each fact by its key. ``acceptance`` says how draft tokens were accepted; ``snapshot`` is the day
of the configuration.
"""

_OTHER = "other"
"""The table of facts that have no key here, all of them texts."""
_LEVEL = "level"
_TABLES = {key.partition(".")[0] for key in FACTS if "." in key} | {_OTHER}


Level = tuple[tuple[int, ...], Mapping[str, Any]]
"""The concurrencies of levels, and the facts that they have instead of the system's."""


@dataclass(frozen=True, slots=True)
class System:
    """Facts by their dotted keys, and those that levels of certain concurrencies have instead."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()

    def get(self, key: str) -> Any:
        """Return a fact, None where it is not given."""
        return self.facts.get(key)

    def at(self, concurrency: int) -> "System":
        """Return the facts of one level."""
        own = (facts for levels, facts in self.levels if concurrency in levels)
        return System({key: value for each in (self.facts, *own) for key, value in each.items()})

    def with_facts(self, texts: Sequence[str], option: str = "--fact") -> "System":
        """Return the system with ``KEY=VALUE`` in place of its own. Raises ``UsageError``."""
        facts = dict(self.facts)
        for text in texts:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals:
                raise UsageError(
                    "fact-without-value", f"{option} {shown(text)} has no value",
                    f"write {option} KEY=VALUE",
                )  # fmt: skip
            facts |= dict(_checked(key, value, option, strict=False))
        return replace(self, facts=facts)

    def updated(self, other: "System") -> "System":
        """Return the system with another's facts in place of its own."""
        return System({**self.facts, **other.facts}, other.levels or self.levels)

    def document(self) -> dict[str, Any]:
        """Return the facts as JSON, in tables; ``system_of`` reads it back."""
        levels = [{"concurrency": list(of), **_nested(facts)} for of, facts in self.levels]
        return _nested(self.facts) | ({_LEVEL: levels} if levels else {})


def system_of(values: Mapping[str, Any], where: str) -> System:
    """Return the system of a TOML file or of a run's record.

    Raises ``UsageError`` that names ``where`` a key is unknown or a value is not of its kind.
    """
    facts = dict(_facts(values, where))
    levels = values.get(_LEVEL, [])
    if not isinstance(levels, list) or not all(isinstance(each, dict) for each in levels):
        raise _unfit(where, _LEVEL, levels, "tables, each as [[level]]")
    own = tuple(_level(each, where) for each in levels)
    _refuse_contradictions(own, where)
    return System(facts, own)


def _refuse_contradictions(levels: Sequence[Level], where: str) -> None:
    """Raise ``UsageError`` if two tables give a level different values of a fact."""
    said: dict[tuple[int, str], tuple[int, Any]] = {}
    for number, (concurrencies, facts) in enumerate(levels, 1):
        for level, (key, value) in product(concurrencies, facts.items()):
            earlier, other = said.setdefault((level, key), (number, value))
            if other != value:
                raise UsageError(
                    "levels-contradict",
                    f"{where}: [[level]] tables {earlier} and {number} say {key} is "
                    f"{shown(other)} and {shown(value)} at concurrency {level}",
                    "correct one of them, or take the level out of it",
                )


def system_on_record(sweep: Mapping[str, Any], where: str) -> System:
    """Return the system of a ``sweep.json``; of a run without facts an empty one. Keys of another
    version are passed over. Raises ``UsageError`` for damage.
    """
    told = sweep.get("system") or {}
    levels = told.get(_LEVEL)
    if isinstance(levels, list):
        levels = [_known(each) if isinstance(each, dict) else each for each in levels]
    return system_of(_known(told) | ({_LEVEL: levels} if levels else {}), where)


def system_toml(system: System) -> str:
    """Return a TOML file of the facts, with a commented line for each key that is not given."""
    tables: dict[str, list[str]] = {"": []}
    for key, fact in FACTS.items():
        table, dot, name = key.rpartition(".")
        value = system.get(key)
        line = f"# {name} =  # {fact.wanted}" if value is None else f"{name} = {_toml(value)}"
        tables.setdefault(table, [f"\n[{table}]"] if dot else []).append(line)
    return "\n".join([*(line for lines in tables.values() for line in lines), _MORE])


_MORE = """
# Facts of single levels stand in tables of their own:
# [[level]]
# concurrency = [48, 70]
# draft_tokens = 0

# Facts without a key of their own, as texts:
# [other]
"""


def _toml(value: Any) -> str:
    text = orjson.dumps(value).decode().replace("\x7f", "\\u007f")
    return value.isoformat() if isinstance(value, date) else text


def _known(told: Mapping[str, Any]) -> dict[str, Any]:
    known = {key for key in FACTS if "." not in key} | _TABLES | {"concurrency"}
    return {key: value for key, value in told.items() if key in known}


def _level(values: Mapping[str, Any], where: str) -> Level:
    told = values.get("concurrency")
    levels = told if isinstance(told, list) else [told]
    if not levels or not all(type(each) is int and each >= 1 for each in levels):
        raise _unfit(where, "level.concurrency", told, "a whole number from 1, or a list of them")
    own = {key: value for key, value in values.items() if key != "concurrency"}
    if "gpus" in own:
        raise UsageError(
            "level-with-gpus", f"{where}: a [[level]] table says gpus, which all levels share",
            "measure levels on another number of GPUs in a run of their own",
        )  # fmt: skip
    return tuple(levels), dict(_facts(own, f"{where}: level"))


def _facts(values: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if key == _LEVEL:
            continue
        if key in _TABLES and isinstance(value, dict):
            for name, each in value.items():
                yield from _checked(f"{key}.{name}", each, where)
        else:
            yield from _checked(key, value, where)


def _checked(key: str, value: Any, where: str, *, strict: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield a fact as it is kept; none for an empty text, which says nothing."""
    table, _, name = key.partition(".")
    fact = Fact(_Text) if table == _OTHER and name else FACTS.get(key)
    if fact is None:
        raise _unknown(key, where)
    try:
        found = msgspec.convert(value, fact.kind, strict=strict)
    except msgspec.ValidationError:
        raise _unfit(where, key, value, fact.wanted) from None
    if found != "":
        yield key, _without_secrets(key, found, where) if isinstance(found, str) else found


def fact_if_fit(key: str, value: Any) -> Any:
    """Return a fact that somebody else tells, as it is kept; None where it cannot be one."""
    try:
        return dict(_checked(key, value, "")).get(key)
    except UsageError:
        return None


def hidden_fact(text: str) -> str:
    """Return ``KEY=VALUE`` of a command line with its secrets hidden, whatever is wrong with it."""
    key, equals, value = text.partition("=")
    try:
        return f"{key}{equals}{_without_secrets(key.strip(), value, '')}"
    except UsageError:
        return f"{key}={HIDDEN}"


def _without_secrets(key: str, text: str, where: str) -> str:
    """Return a fact's text with its secrets hidden, the server's own key among them."""
    if key.startswith(_OTHER) and is_secret_field(key):
        return HIDDEN
    text = without_secrets(text, worth_hiding([os.environ.get("OPENAI_API_KEY", "")]))
    try:
        return hidden_launch(text) if key == "launch" else hidden_text(text)
    except ValueError as error:
        reason = str(error)[:1].lower() + str(error)[1:]
        raise UsageError(
            "launch-line-unreadable", f"{where}: no shell can split launch ({reason})",
            "write it as it is typed in a shell",
        ) from None  # fmt: skip


def _unknown(key: str, where: str) -> UsageError:
    names = [*FACTS, _LEVEL]
    near = get_close_matches(key, names, n=1) or [each for each in names if each.endswith(key)]
    meant = f"did you mean {near[0]}? " if near else ""
    return UsageError(
        "fact-unknown",
        f"{where}: unknown fact {shown(key)}",
        f"{meant}facts without a key stand in the table [other], as texts",
    )


def _unfit(where: str, key: str, value: Any, wanted: str) -> UsageError:
    return UsageError("fact-unfit", f"{where}: {key} is {shown(value)}", f"give {wanted}")


def _nested(facts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in facts.items():
        table, dot, name = key.partition(".")
        plain = value.isoformat() if isinstance(value, date) else value
        if dot:
            found.setdefault(table, {})[name] = plain
        else:
            found[key] = plain
    return found
