"""What a run says against itself: on screen, in point.json and by its exit code."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from command_line import finished


def run(out: Path, *arguments: str) -> CompletedProcess[str]:
    return finished("run", "--virtual", "--concurrency", "2", "--out", out, *arguments)


def point(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "c0002" / "point.json").read_text())
    return found


def codes(out: Path, kind: str) -> list[str]:
    return [each["code"] for each in point(out)["findings"] if each["kind"] == kind]


def test_an_overridden_rule_is_recorded_and_not_comparable(tmp_path: Path) -> None:
    out = tmp_path / "o"
    told = run(out, "--scenario", "agentx", "--override", "window_s=30.0", "--override", "seed=42")
    # A seed of 42 is the scenario's own: nothing is changed by saying so.
    assert codes(out, "incomparable") == [
        "no-server", "rules-overridden", "window-short", "other-corpus", "sessions-lacking",
    ]  # fmt: skip
    whole = " ".join(finished("report", out, "--full").stdout.split())
    for reason in point(out)["incomparable_reasons"]:
        assert reason in whole
    sweep = json.loads((out / "sweep.json").read_text())
    assert sweep["scenario"]["overridden"] == ["window_s"]
    assert "overridden: window_s" in told.stderr


def test_a_rule_is_changed_by_override_alone(tmp_path: Path) -> None:
    told = run(tmp_path / "o", "--scenario", "agentx", "--window", "30")
    assert told.returncode == 2
    assert not (tmp_path / "o").exists()


def test_a_warm_up_that_fails_is_not_valid_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "o"
    told = run(out, "--override", "warmup_timeout_s=0.001")
    assert told.returncode == 1
    found = point(out)
    assert (found["status"], found["valid"]) == ("failed", False)
    assert codes(out, "invalid") == ["warm-up-timed-out"]
    (reason,) = found["invalid_reasons"]
    assert "0.001 s" in reason
    assert reason in " ".join(told.stdout.split())
    assert found["fidelity"] is None
    assert "nothing-measured" in codes(out, "incomparable")


def test_requests_that_are_cut_are_not_valid_and_counted(tmp_path: Path) -> None:
    out = tmp_path / "o"
    told = run(out, "--override", "window_s=2.0", "--override", "grace_s=0.0")
    assert told.returncode == 1
    assert "requests-cut" in codes(out, "invalid")


def test_the_fidelity_report_is_kept_and_repeated(tmp_path: Path) -> None:
    out = tmp_path / "o"
    ran = run(out)
    kept = point(out)["fidelity"]
    assert kept["conformity"]["requests"] > 0
    assert (kept["trees_least"], kept["trees_most"]) == (2, 2)
    line = "replay exact"
    assert line in " ".join(ran.stdout.split())
    assert line in " ".join(finished("report", out).stdout.split())
