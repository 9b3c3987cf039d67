"""That somebody else used the server during a run is said wherever the run is."""

import json
from pathlib import Path

import pytest
from made_runs import Level, make_run
from record_cases import SECOND, server_rows, write_rows

from agentx_replay.analysis.comparison import Contender, compare
from agentx_replay.report.compare_table import compare_text
from agentx_replay.report.rebuild import Report
from agentx_replay.results.layout import point_directory
from agentx_replay.results.schema import SERVER

LEVELS = (Level(2, 60.0, 1000.0), Level(4, 40.0, 1500.0))
# Both lanes of level 2 send 1,000 tok/s × 8 GPUs × 100 s / 2 lanes, less 101 of output.
SENT_TOKENS = 2 * (400_000 - 101)
SAID = "concurrency 2: WARNING: the server looked up 100% more prompt tokens"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run at whose lower level the server looked up twice what the run sent."""
    path = make_run(tmp_path_factory.mktemp("shared") / "ours", LEVELS)
    scrapes = [
        (
            "http://127.0.0.1:8000/metrics",
            second * SECOND,
            [
                f"vllm:prefix_cache_queries_total {queries}",
                f"vllm:prefix_cache_hits_total {queries // 4}",
            ],
        )
        for second, queries in ((0, 0), (100, 2 * SENT_TOKENS))
    ]
    write_rows(point_directory(path, 2), SERVER, server_rows(scrapes))
    return path


def joined(text: str) -> str:
    return " ".join(text.split())


def test_a_terminal_says_it_of_the_level_and_of_a_target_read_off_it(shared: Path) -> None:
    said = joined(Report.of(shared, (50.0,)).text())
    assert said.count(SAID) == 2


def test_plain_values_have_it_among_the_findings_of_its_level(shared: Path) -> None:
    low, high = json.loads(json.dumps(Report.of(shared, (50.0,)).plain()))["points"]
    shared_at = [
        point["concurrency"]
        for point in (low, high)
        if "server-shared" in [each["code"] for each in point["findings"]]
    ]
    assert shared_at == [2]
    assert low["valid"]


def test_the_page_says_it_at_its_head(shared: Path) -> None:
    head = Report.of(shared, (50.0,)).write().read_text().split("</header>")[0]
    assert head.count(SAID.capitalize().replace("warning", "WARNING")) == 1


def test_a_comparison_says_it_beside_the_run(shared: Path, tmp_path: Path) -> None:
    alone = make_run(tmp_path / "theirs", LEVELS)
    runs = [Contender(path.name, Report.of(path, ()).run, None, None) for path in (alone, shared)]
    said = joined(compare_text(compare(runs, (50.0,)), None))
    before, _ = said.split(SAID)
    assert before.rindex(" ours: ") > before.rindex(" theirs: ")
