from pathlib import Path

from record_cases import server_rows, write_rows

from agentx_replay.analysis.facts import Rules
from agentx_replay.analysis.point import level_metrics
from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.server import Metrics
from agentx_replay.experiment.level import accept_length, with_drafting
from agentx_replay.results.schema import SERVER

SECOND = 1_000_000_000
WINDOW = Window(0, 100 * SECOND, 100.0)
RULES = Rules("agentx", comparable=True, window_s=3600.0)


def scraped(directory: Path, drafts: int, accepted: int) -> Metrics:
    """A level whose server's counters grow by so much a second."""
    scrapes = (
        (
            "http://127.0.0.1:8000/metrics",
            second * SECOND,
            [
                "vllm:num_requests_running 1",
                f"vllm:spec_decode_num_drafts_total {second * drafts}",
                f"vllm:spec_decode_num_accepted_tokens_total {second * accepted}",
            ],
        )
        for second in range(101)
    )
    write_rows(directory, SERVER, server_rows(scrapes))
    return level_metrics(directory, WINDOW)


def test_a_server_that_drafts_in_the_window_is_told(tmp_path: Path) -> None:
    # 236 accepted of 100 cycles: 1 + 2.36 tokens each.
    accepted = accept_length(scraped(tmp_path, 100, 236), WINDOW)
    assert accepted == 3.36
    assert " 3.36 tokens " in (with_drafting(RULES, accepted).speculative_decoding or "")
    assert accept_length({}, None) is None


def test_a_server_without_drafts_or_metrics_leaves_the_rules_as_they_are(tmp_path: Path) -> None:
    assert accept_length(scraped(tmp_path / "a", 0, 0), WINDOW) is None
    assert accept_length({}, WINDOW) is None
    assert with_drafting(RULES, None) == RULES
