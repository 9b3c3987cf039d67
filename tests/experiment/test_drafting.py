from pathlib import Path

import pytest

from agentx_replay.analysis.facts import Rules
from agentx_replay.analysis.window import Window
from agentx_replay.experiment.drafting import with_drafting
from agentx_replay.results.layout import server_parts
from agentx_replay.results.sample_parts import SampleParts
from agentx_replay.results.schema import SERVER
from agentx_replay.results.server_metrics import ServerSamples, known_samples

SECOND = 1_000_000_000
WINDOW = Window(0, 100 * SECOND, 100.0)
RULES = Rules("agentx", comparable=True, window_s=3600.0)


def scraped(directory: Path, drafts: int, accepted: int) -> Path:
    """A level whose server's counters grow by so much a second."""
    samples = ServerSamples()
    for second in range(101):
        lines = [
            "vllm:num_requests_running 1",
            f"vllm:spec_decode_num_drafts_total {second * drafts}",
            f"vllm:spec_decode_num_accepted_tokens_total {second * accepted}",
        ]
        for series, value in known_samples(lines):
            samples.add("http://127.0.0.1:8000/metrics", second * SECOND, series, value)
    SampleParts(server_parts(directory), SERVER).write(samples.take(4))
    return directory


def test_a_server_that_drafts_in_the_window_is_told(tmp_path: Path) -> None:
    # 236 accepted of 100 cycles: 1 + 2.36 tokens each.
    rules = with_drafting(RULES, scraped(tmp_path, 100, 236), WINDOW)
    assert " 3.36 tokens " in (rules.speculative_decoding or "")


@pytest.mark.parametrize("window", [WINDOW, None])
def test_a_server_without_drafts_leaves_the_rules_as_they_are(
    tmp_path: Path, window: Window | None
) -> None:
    assert with_drafting(RULES, scraped(tmp_path, 0, 0), window) == RULES


def test_without_metrics_nothing_is_said(tmp_path: Path) -> None:
    assert with_drafting(RULES, tmp_path, WINDOW) == RULES


def test_without_a_window_nothing_was_drafted_in_it(tmp_path: Path) -> None:
    assert with_drafting(RULES, scraped(tmp_path, 100, 236), None) == RULES
