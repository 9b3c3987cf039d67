"""A server on which no run can be valid is refused, and a sweep that shows one stops."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from refusals import refuses

from agentx_replay import library
from agentx_replay.experiment import cut_prompts as asking
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.wrong import all_wrong
from agentx_replay.reason import Reason
from agentx_replay.replay.ports import Clock, Dispatch, Response
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.results.run_directory import read_points
from agentx_replay.scenario import load_scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint


class PromptsCut(InProcessEndpoint):
    """An engine that counts half of each prompt."""

    async def send(self, dispatch: Dispatch) -> Response:
        response = await super().send(dispatch)
        return dataclasses.replace(response, prompt_tokens=dispatch.prompt.tokens // 2)


def cutting(clock: Clock) -> PromptsCut:
    return PromptsCut(clock, EngineModel())


def measured(
    monkeypatch: pytest.MonkeyPatch, target: Target, out: Path, *, anyway: bool
) -> tuple[list[int], str]:
    """The levels of 1 and 2 agents that were measured, and what was said."""

    @contextmanager
    def opened(_: Settings) -> Iterator[Target]:
        yield target

    monkeypatch.setattr(library, "open_target", opened)
    rules = load_scenario("quick").override(window_s=1.0, grace_s=1.0)
    settings = Settings(scenario=rules, concurrency=(1, 2), out=out, anyway=anyway)
    said = StringIO()
    library.measure(settings, ProgressScreen(None, said))
    return [point.concurrency for point in read_points(out)], said.getvalue()


def test_a_sweep_stops_after_a_level_of_wrong_responses_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = Target(open=cutting, facts={"kind": "test"}, virtual=True)
    levels, said = measured(monkeypatch, target, tmp_path / "stopped", anyway=False)
    assert levels == [1]
    assert "--anyway" in said
    assert measured(monkeypatch, target, tmp_path / "all", anyway=True)[0] == [1, 2]


def test_a_server_without_usage_is_refused_before_the_first_level(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = Reason("server-without-usage", "reports none")
    target = Target(open=cutting, facts={"kind": "test"}, warnings=(wrong,), virtual=True)
    with refuses("server-unfit", "reports none", "--enable-force-include-usage", "--anyway"):
        measured(monkeypatch, target, tmp_path / "out", anyway=False)
    assert not (tmp_path / "out").exists()
    assert measured(monkeypatch, target, tmp_path / "out", anyway=True)[0] == [1, 2]


def test_a_server_that_cuts_prompts_is_refused_and_one_that_tells_its_limit_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cut = [Reason("server-cuts-prompts", "cut to 4,096 tokens")]
    monkeypatch.setattr(asking, "cut_prompts", lambda *_: cut)
    untold = Target(open=cutting, facts={"kind": "test"}, virtual=True)
    with refuses("server-unfit", "cut to 4,096 tokens", "OLLAMA_CONTEXT_LENGTH"):
        measured(monkeypatch, untold, tmp_path / "out", anyway=False)
    told = dataclasses.replace(untold, max_context=200_000)
    assert measured(monkeypatch, told, tmp_path / "out", anyway=False)[0] == [1]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        # (status, prompt_length_error, recorded_input_tokens); 5 of 1,000 tokens are 0.5 %.
        ([("ok", 5, 1000)], False),
        ([("ok", -6, 1000)], True),
        ([("ok", None, 1000)], True),
        ([("failed", None, 1000), ("length_mismatch", 0, 1000), ("overflow", None, 1000)], True),
        ([("failed", None, 1000), ("ok", 0, 1000)], False),
        # What was cut had not ended, so it says nothing.
        ([("cut", None, 1000)], False),
        ([], False),
    ],
)
def test_when_every_response_is_wrong(rows: list[tuple[str, int | None, int]], wrong: bool) -> None:
    status, error, recorded = zip(*rows, strict=True) if rows else ((), (), ())
    table = pa.table(
        {
            "status": pa.array(status, pa.string()),
            "prompt_length_error": pa.array(error, pa.int32()),
            "recorded_input_tokens": pa.array(recorded, pa.int32()),
        }
    )
    assert bool(all_wrong(table)) is wrong
