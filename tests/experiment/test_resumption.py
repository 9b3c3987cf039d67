"""What may differ between a run and its resumption, and what is said where more does."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from refusals import refuses

from agentx_replay.experiment.resumption import Earlier, differences, earlier_run, resumed
from agentx_replay.experiment.settings import Settings
from agentx_replay.scenario import load_scenario


def document(**changes: Any) -> dict[str, Any]:
    """A sweep document; a change's name is its path, as ``scenario__seed``."""
    whole: dict[str, Any] = {
        "command": ["sweep"],
        "started_unix_s": 1.0,
        "versions": {"agentx-replay": "0.1.0", "python": "3.11.7"},
        "host": {"platform": "Linux", "cpus": 2},
        "scenario": {"name": "quick", "seed": 42, "window_s": 20.0, "fingerprint": "a"},
        "corpus": {"name": "traces", "fingerprint": "c0ffee", "played": ["s1", "s2"]},
        "plans": {"2": "p2"},
        "levels": [2, 4],
        "starts": 2,
        "gpus": 8,
        "salt": "pepper",
        "tool_messages": False,
        "calibration": {"words": 9, "cost": {"per_message": 4}, "warnings": []},
        "target": {"kind": "server", "url": "http://a/v1", "model": "m", "keep_alive_s": 5.0,
                   "metrics": []},
        "timestamps": "kernel",
        "settings": {"endpoint": "chat", "header": ["Cookie: ***"], "keepalive": None,
                     "workers": None, "body": "(not kept)"},
    }  # fmt: skip
    for path, value in changes.items():
        inner, *rest = path.split("__")
        if rest:
            whole[inner] = {**whole[inner], rest[0]: value}
        else:
            whole[inner] = value
    return whole


def earlier(sweep: dict[str, Any]) -> Earlier:
    return Earlier(Path("run"), sweep, Settings(), ())


@pytest.mark.parametrize(
    "change",
    [
        {"command": ["sweep", "--resume"]},
        {"started_unix_s": 99.0},
        {"host": {"platform": "another"}},
        {"versions__python": "3.12.1"},
        {"corpus__name": "the same files elsewhere"},
        {"levels": [8]},
        {"starts": 3},
        {"plans": {"8": "p8"}},
        {"calibration__warnings": ["measured anew"]},
        {"target__keep_alive_s": None},
        {"target__metrics": ["http://a/metrics"]},
        {"settings__workers": 2},
        {"settings__body": '{"user": "sk-secret"}'},
    ],
)
def test_what_says_nothing_of_the_experiment_may_differ(change: dict[str, Any]) -> None:
    assert differences(document(), document(**change)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"versions__agentx-replay": "0.2.0"}, "the version was 0.1.0 and is 0.2.0"),
        ({"corpus__fingerprint": "dead"}, "the corpus was c0ffee and is dead"),
        (
            {"corpus__played": ["s1"]},
            "the sessions played was 2 (06394624) and is 1 (90afadf3)",
        ),
        ({"scenario__seed": 7}, "the rule seed was 42 and is 7"),
        ({"scenario__window_s": 5.0}, "the rule window_s was 20 and is 5"),
        ({"target__model": "n"}, "the server's model was m and is n"),
        ({"target__url": "http://b/v1"}, "the server's url was http://a/v1 and is http://b/v1"),
        (
            {"calibration__cost": {"per_message": 5}},
            "the template's cost was per_message 4 and is per_message 5",
        ),
        ({"timestamps": "process"}, "the clock of arrivals was kernel and is process"),
        ({"settings__endpoint": "completions"}, "--endpoint was chat and is completions"),
        ({"settings__keepalive": 4.0}, "--keepalive was not given and is 4"),
        ({"settings__header": []}, "--header was Cookie: *** and is not given"),
        ({"tool_messages": True}, "--tool-messages was not given and is given"),
        ({"salt": "s"}, "--salt was pepper and is s"),
        ({"gpus": None}, "--gpus was 8 and is not given"),
        ({"scenario__new_rule": 1}, "the rule new_rule was not known and is 1"),
    ],
)
def test_a_difference_is_named_with_both_values(change: dict[str, Any], told: str) -> None:
    assert differences(document(), document(**change)) == [told]


def test_of_several_servers_all_are_compared_and_named() -> None:
    one = document(target__url=["http://a/v1", "http://b/v1"])
    other = document(target__url=["http://a/v1", "http://c/v1"])
    assert differences(one, one) == []
    (told,) = differences(one, other)
    assert told.endswith(" url was http://a/v1, http://b/v1 and is http://a/v1, http://c/v1")
    (told,) = differences(document(), one)
    assert told.endswith(" url was http://a/v1 and is http://a/v1, http://b/v1")


def test_an_embedded_simulator_listens_on_another_port_each_time() -> None:
    one = document(target={"kind": "built-in simulator", "url": "http://127.0.0.1:1/v1"})
    two = document(target={"kind": "built-in simulator", "url": "http://127.0.0.1:2/v1"})
    assert differences(one, two) == []


def test_a_run_that_goes_on_keeps_its_beginning_and_adds_its_levels() -> None:
    left = earlier(document())
    now = document(command=["sweep", "--resume"], started_unix_s=9.0, levels=[4, 8])
    now["plans"] = {"4": "p4", "8": "p8"}
    found = resumed(left, now, accept=False)
    assert (found["command"], found["started_unix_s"]) == (["sweep"], 1.0)
    assert found["levels"] == [2, 4, 8]
    assert found["plans"] == {"2": "p2", "4": "p4", "8": "p8"}
    again = {"command": ["sweep", "--resume"], "unix_s": 9.0, "differences": []}
    assert found["resumed"] == [again]
    third = resumed(earlier(found), now, accept=False)
    assert third["resumed"] == [again, again]


@pytest.mark.parametrize(("before", "now", "after"), [(2, 3, 3), (3, 1, 3)])
def test_a_run_that_goes_on_has_the_most_starts_it_was_ever_asked_for(
    before: int, now: int, after: int
) -> None:
    before_it = document(starts=before)
    assert resumed(earlier(before_it), document(starts=now), accept=False)["starts"] == after


def test_differences_are_refused_all_at_once_and_accepted_only_on_record() -> None:
    left = earlier(document())
    now = document(scenario__seed=7, target__model="n")
    command = "agentx-replay sweep --resume --out run\n"
    both = differences(left.document, now)
    assert len(both) == 2
    with refuses("resume-differs", "; ".join(both), command, "--override"):
        resumed(left, now, accept=False)
    assert resumed(left, now, accept=True)["resumed"][0]["differences"] == both


def test_a_damaged_calibration_is_told(tmp_path: Path) -> None:
    whole = document(scenario=asdict(load_scenario("quick")), live_history=False, settings={})
    (tmp_path / "sweep.json").write_bytes(orjson.dumps(whole))
    (tmp_path / "calibration.json").write_text("{}")
    with refuses("not-a-calibration", "calibration.json"):
        earlier_run(tmp_path)
