"""A sweep that names no levels: probes find them, and what was measured adds to them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import finished, refusal
from made_runs import Level, make_run
from screens import BlankScreen
from small_corpus import corpus, request, session

from agentx_replay.analysis.run import read_run
from agentx_replay.experiment.auto import Bracketing, Probe, Probing, found_levels, probe_rules
from agentx_replay.experiment.levels import Done
from agentx_replay.experiment.settings import Settings
from agentx_replay.results.run_directory import read_sweep
from agentx_replay.scenario import load_scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint
from agentx_replay.target import in_process_target


def test_probes_take_a_tenth_of_the_shortest_run_of_agentx() -> None:
    rules, budget_s = probe_rules(load_scenario("agentx"), starts=1)
    assert budget_s == 1080.0  # 10 % of three levels of 3600 s
    assert (rules.window_s, rules.grace_s, rules.warmup_requests) == (60.0, 5.0, 0)
    assert rules.warmup_timeout_s == 360.0
    rules, budget_s = probe_rules(load_scenario("quick"), starts=1)
    assert (rules.window_s, budget_s, rules.warmup_timeout_s) == (5.0, 180.0, 60.0)


@pytest.mark.parametrize(
    ("probes", "following"),
    [
        ([], 1),
        ([Probe(1, 160.0, 70.0)], 6),  # 160 / 30 = 5.3
        ([Probe(6, 31.0, 70.0)], 12),  # 6.2, but at least twice as many
        ([Probe(1, 160.0, 70.0), Probe(6, 29.0, 80.0)], None),  # slower than the slowest target
        ([Probe(6, None, 425.0)], None),  # its warm-up did not end
        # A probe of agentx takes 425 s at most, of 1,080 s: 655 s may be spent before.
        ([Probe(1, 160.0, 655.0)], 6),
        ([Probe(1, 160.0, 656.0)], None),
        ([Probe(2048, 160.0, 70.0)], None),
    ],
)
def test_probes_go_upwards_as_far_as_speed_and_time_allow(
    probes: list[Probe], following: int | None
) -> None:
    rules, budget_s = probe_rules(load_scenario("agentx"), starts=1)
    level = Probing((150.0, 30.0), rules, budget_s).next_probe(probes)
    assert isinstance(level, Done) if following is None else level == (following, 1)


def test_levels_found_are_put_on_record_and_reach_every_target(
    tmp_path: Path, small_traces: Path
) -> None:
    out = tmp_path / "out"
    asked = ("--virtual", "-c", "auto", "--at", "100,150", "--window", "4s")
    done = finished("sweep", *asked, "--traces", small_traces, "--json", "--out", out)
    assert [value["throughput"] is None for value in json.loads(done.stdout)["curve"]["at"]] == [
        False
    ] * 2
    document = read_sweep(out)
    assert document["probes"][0]["concurrency"] == 1
    assert document["settings"]["bracket"]
    assert " windows of 4 s, " in done.stderr
    again = finished("sweep", "--resume", "--json", "--out", out)
    assert read_sweep(out)["levels"] == document["levels"]
    assert read_sweep(out)["probes"] == document["probes"]
    assert len(json.loads(again.stdout)["points"]) == len(document["levels"])

    same = f"--virtual --like {out} --window 1s --traces {small_traces} --out {tmp_path / 'b'}"
    like = finished("sweep", *same.split())
    assert read_sweep(tmp_path / "b")["levels"] == document["levels"], like.stderr
    assert "[auto-with-resume]" in refusal("sweep", "--resume", "-c", "auto", "--out", out)
    assert "[like-with-concurrency]" in refusal("sweep", "--like", out, "-c", "2")


class Said(BlankScreen):
    """Keeps the lines that stay."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_of_agentx_at_most_a_tenth_of_the_run_is_spent_on_probes(tmp_path: Path) -> None:
    requests = [request(10.0 * n, range(1, 9), out=100) for n in range(20)]
    corpus(tmp_path / "traces", session("a", *requests), session("b", *requests))
    model = EngineModel(per_sequence_ms=10.0)
    settings = Settings(
        traces=tmp_path / "traces",
        scenario=load_scenario("agentx"),
        out=tmp_path / "out",
        at=(30.0, 50.0),
    )
    target = replace(in_process_target(), open=lambda clock: InProcessEndpoint(clock, model))
    screen = Said()
    levels, prepared = found_levels(settings, target, screen)
    assert screen.lines[0].endswith("probes of 60 s, 1080 s in all at most")
    assert 0 < sum(probe["took_s"] for probe in prepared.probes) <= 360.0 * len(levels)


def test_up_to_two_levels_are_added_until_every_target_lies_between(tmp_path: Path) -> None:
    make_run(tmp_path, [Level(4, 100.0, 4000.0), Level(8, 50.0, 6000.0)])
    points = read_run(tmp_path).points
    source = Bracketing((4, 8), 1, (30.0,))
    assert source.next_level(points) == (16, 1)  # 8 agents at 50 tok/s/user: 13.3
