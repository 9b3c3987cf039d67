"""The rules of a run, and what overriding one means."""

from pathlib import Path

import pytest
from refusals import refuses

from agentx_replay.errors import UsageError
from agentx_replay.scenario import load_scenario, scenario_names


def test_the_presets_are_those_of_the_protocol() -> None:
    assert scenario_names() == [
        "agentx",
        "agentx-faithful",
        "agentx-fast",
        "demo",
        "fixed",
        "quick",
    ]


FIGURES = (
    "window_s", "grace_s", "warmup_requests", "system_idle_cap_s", "session_idle_cap_s",
    "max_sessions", "reading", "session_idle_from", "comparable",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("agentx", (3600, 30, 10, 10, 300, 393, "official", "barrier", True)),
        ("agentx-faithful", (3600, 300, 10, 10, 300, 393, "faithful", "last_end", True)),
        ("agentx-fast", (1200, 30, 1, 10, 300, 393, "official", "barrier", True)),
        ("demo", (10, 20, 1, 0.2, 0.5, None, "official", "last_end", False)),
        ("fixed", (900, 300, 1, 0.2, 0.2, None, "faithful", "last_end", True)),
        ("quick", (20, 10, 1, 0.2, 0.5, None, "official", "last_end", False)),
    ],
)
def test_a_preset_has_the_protocols_figures(name: str, figures: tuple[object, ...]) -> None:
    scenario = load_scenario(name)
    assert tuple(getattr(scenario, figure) for figure in FIGURES) == figures
    from_where = (0.0, 0.0) if name == "fixed" else (0.25, 0.75)
    assert (scenario.start_fraction, scenario.seed) == (from_where, 42)
    assert scenario.overridden == ()


def test_an_override_is_named_and_changes_the_fingerprint() -> None:
    scenario = load_scenario("quick")
    changed = scenario.override(window_s=5.0, seed=42)
    assert changed.window_s == 5.0
    assert changed.overridden == ("window_s",)  # the seed is what it was
    assert changed.fingerprint != scenario.fingerprint


def test_an_unknown_scenario_says_which_there_are() -> None:
    with refuses("scenario-unknown", "agentx-faithful", "agentx-fast"):
        load_scenario("nope")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("window_s = -1", "window_s is -1"),
        ("window_s = true", "window_s is true"),
        ("warmup_requests = 1.5", "whole number"),
        ("reading = 'odd'", "official, faithful"),
        ("start_fraction = [0.75, 0.25]", "two fractions"),
        ("start_fraction = 3", "two fractions"),
        ("comparable = 1", "true or false"),
        ("nonsense = 1", "unknown rule 'nonsense'"),
        ("= 1", "not TOML"),
        ("seed = " + "9" * 5000, "a number of thousands of digits"),
        ("seed = 0x" + "f" * 5000, "seed is a number of thousands of digits"),
        ("seed = " + "[" * 3000, "nested too deeply"),
        ("seed = '" + "x" * 100 + "'", "seed is 'x{39}…"),
        ("start_fraction = '01'", "two fractions"),
        ("start_fraction = {'0.1' = 1, '0.2' = 2}", "two fractions"),
        ("start_fraction = [false, true]", "two fractions"),
        ("start_fraction = ['0', '1']", "two fractions"),
    ],
)
def test_a_bad_rule_is_told_with_its_file(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(line)
    with pytest.raises(UsageError, match=told) as refused:
        load_scenario(str(path))
    assert str(path) in refused.value.what


def test_a_missing_rule_and_a_missing_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("window_s = 5")
    with refuses("rule-missing"):
        load_scenario(str(path))
    with refuses("file-unreadable", "none.toml"):
        load_scenario(str(tmp_path / "none.toml"))


def test_a_file_of_ones_own_is_a_scenario(tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[1] / "scenarios" / "quick.toml"
    path = tmp_path / "mine.toml"
    path.write_text(shipped.read_text().replace("window_s = 20.0", "window_s = 7.5"))
    scenario = load_scenario(str(path))
    assert (scenario.name, scenario.window_s) == ("mine", 7.5)


@pytest.mark.parametrize(("rule", "value"), [("windows", 5), ("window_s", "long")])
def test_an_override_of_nothing_or_with_nonsense_is_refused(rule: str, value: object) -> None:
    with pytest.raises(UsageError):
        load_scenario("quick").override(**{rule: value})
