"""Facts of a system: what a file may say, how a wrong key is told, what is kept."""

from datetime import date
from typing import Any

import pytest
from refusals import refuses

from agentx_replay.results.system_facts import (
    FACTS,
    System,
    hidden_fact,
    system_of,
    system_on_record,
)

MI355X: dict[str, Any] = {
    "name": "8x MI355X", "hw": "mi355x", "gpus": 8, "nodes": 1, "topology": "xGMI", "hbm_gb": 288,
    "host_dram_gb": 3072, "peak_pflops": 10.1, "model": "DeepSeek-R1", "image": "vllm-rocm:v0.32.0",
    "framework": "vllm", "engine_commit": "36768d1bf", "recipe": "https://recipes/mi355x",
    "launch": "vllm serve m --api-key sk-1 -tp 8", "precision": "fp4", "kv_precision": "fp8",
    "tp": 8, "pp": 1, "ep": 1, "dp_attention": False, "dcp_size": 8, "pcp_size": 1,
    "block_size": 16, "kv_cache_pool_tokens": 2_100_000, "kv_offloading": "cpu",
    "kv_offload_backend": {"name": "SimpleCPU", "version": "1"}, "offload_gb_per_gpu": 224.875,
    "spec_decoding": "eagle", "draft_tokens": 3, "acceptance": "synthetic 3.00", "disagg": False,
    "prefill_gpus": 0, "decode_gpus": 8, "router": "none", "measured_by": "a bench",
    "snapshot": date(2026, 10, 9), "notes": "none",
    "price": {
        "usd_per_gpu_hour": 1.50, "kind": "cost: owned, large hyperscaler", "source": "a model",
        "date": date(2026, 10, 9), "utilisation": 1.0, "covers": "all-in",
    },
    "power": {"watts_per_gpu": 2650, "kind": "modelled, all-in", "source": "a model"},
    "level": [{"concurrency": [48, 70], "dcp_size": 1, "draft_tokens": 0}],
    "other": {"rack": "B12", "api_key": "sk-1"},
}  # fmt: skip


def test_every_key_is_kept_and_read_back() -> None:
    system = system_of(MI355X, "mi355x.toml")
    kept = system.document()
    assert set(FACTS) <= {*system.facts}
    days = {"snapshot": "2026-10-09", "price": MI355X["price"] | {"date": "2026-10-09"}}
    secret = {
        "launch": "vllm serve m --api-key *** -tp 8",
        "other": {"rack": "B12", "api_key": "***"},
    }
    assert kept == MI355X | days | secret
    assert system_on_record({"system": kept}, "sweep.json") == system


def test_a_level_has_its_own_facts() -> None:
    system = system_of(MI355X, "mi355x.toml")
    assert [system.at(level).get("dcp_size") for level in (12, 48, 70)] == [8, 1, 1]
    assert system.at(48).get("tp") == 8


@pytest.mark.parametrize("key", FACTS)
def test_a_value_of_another_kind_is_refused_naming_its_key(key: str) -> None:
    with refuses("fact-unfit", "mine.toml", key):
        system_of(_tables(key, ["a", "list"]), "mine.toml")


@pytest.mark.parametrize("key", FACTS)
def test_a_key_that_is_spelt_wrong_names_the_right_one(key: str) -> None:
    with refuses("fact-unknown", f"{key}x", f"did you mean {key}?"):
        System().with_facts([f"{key}x=1"])


def _tables(key: str, value: Any) -> dict[str, Any]:
    table, dot, name = key.partition(".")
    return {table: {name: value}} if dot else {key: value}


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("tp", "fact-without-value", "'tp'"),
        ("tp=0", "fact-unfit", "a whole number from 1"),
        ("gpus=8.5", "fact-unfit", "a whole number from 1"),
        ("hbm_gb=nan", "fact-unfit", "a number above 0"),
        ("hbm_gb=inf", "fact-unfit", "a number above 0"),
        ("price.usd_per_gpu_hour=-1", "fact-unfit", "a number above 0"),
        ("price.utilisation=60", "fact-unfit", "at most 1"),
        ("price.kind=list", "fact-unfit", "cost, rent or revenue"),
        ("power.kind=guessed", "fact-unfit", "measured or modelled"),
        ("dp_attention=maybe", "fact-unfit", "true or false"),
        ("snapshot=yesterday", "fact-unfit", "2026-10-09"),
        ("launch=x 'y", "launch-line-unreadable", "no closing quotation"),
        ("usd_per_gpu_hour=1", "fact-unknown", "did you mean price.usd_per_gpu_hour?"),
        ("colour=red", "fact-unknown", "[other]"),
    ],
)
def test_a_fact_that_cannot_be_is_one_sentence(text: str, code: str, named: str) -> None:
    with refuses(code, named):
        System().with_facts([text])


@pytest.mark.parametrize(
    "levels", [{"concurrency": 8}, [3], [{"dcp_size": 1}], [{"concurrency": []}],
               [{"concurrency": [0]}], [{"concurrency": "8"}]],
)  # fmt: skip
def test_levels_are_tables_that_name_their_concurrency(levels: Any) -> None:
    with refuses("fact-unfit", "mine.toml", "level"):
        system_of({"level": levels}, "mine.toml")


def test_no_level_has_gpus_of_its_own() -> None:
    with refuses("level-with-gpus", "mine.toml"):
        system_of({"gpus": 2, "level": [{"concurrency": 2, "gpus": 8}]}, "mine.toml")


def test_levels_that_contradict_one_another_are_refused() -> None:
    same = {"concurrency": [8, 48], "tp": 8}
    system_of({"level": [same, {"concurrency": 48, "tp": 8, "ep": 2}]}, "mine.toml")
    with refuses("levels-contradict", "tables 1 and 3", "tp is 8 and 4 at concurrency 48"):
        system_of({"level": [same, {"concurrency": 2}, {"concurrency": 48, "tp": 4}]}, "mine.toml")


@pytest.mark.parametrize("key", ["recipe", "notes", "other.rack", "measured_by", "launch"])
def test_no_text_keeps_a_secret(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-own-key")
    said = f"{key}=x --api-key zz --url https://me:pw@h sk-abcdefgh1234 the-own-key"
    kept = "x --api-key *** --url https://***@h *** ***"
    assert System().with_facts([said]).get(key) == kept
    assert hidden_fact(said) == f"{key}={kept}"


def test_single_facts_win_and_empty_texts_say_nothing() -> None:
    system = System({"tp": 4, "hw": "b300"}).with_facts(["tp=8", "router=", "other.rack=B12"])
    assert system == System({"tp": 8, "hw": "b300", "other.rack": "B12"})


def test_a_record_of_another_version_is_read_without_what_is_new() -> None:
    told = {"tp": 8, "colour": "red", "level": [{"concurrency": [8], "tp": 4, "shade": 1}]}
    assert system_on_record({"system": told}, "x") == System({"tp": 8}, (((8,), {"tp": 4}),))
    assert system_on_record({}, "x") == System()
