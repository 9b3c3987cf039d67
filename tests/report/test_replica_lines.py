"""What is said of several servers, before the first request and after the last."""

from pathlib import Path

import pytest
from made_runs import Level, make_run

from agentx_replay.analysis.by_server import Served
from agentx_replay.report.rebuild import Report
from agentx_replay.report.replica_lines import served_lines, uneven_share
from agentx_replay.results.layout import Measurement


@pytest.mark.parametrize(
    ("level", "servers", "said"),
    [
        (2, 3, "2 of 3 servers with 1 session at a time, the other with 0"),
        (7, 3, "1 of 3 servers with 3 sessions at a time, the others with 2"),
        (8, 3, "2 of 3 servers with 3 sessions at a time, the other with 2"),
        (6, 3, None),
        (7, 1, None),
    ],
)
def test_sessions_that_do_not_divide_evenly_among_servers_are_told(
    level: int, servers: int, said: str | None
) -> None:
    assert uneven_share(level, servers) == said


def test_what_each_server_served_has_a_line_a_level() -> None:
    by_level = {
        Measurement(16, 2): [Served(1200, 3_500_000), Served(1100, 3_000_000)],
        Measurement(3): [Served(12, 40), Served(6, 20)],
    }
    assert served_lines(by_level) == [
        "by server, in the order of --url, by concurrency (tokens of what ended well):",
        "      3: 12 and 6 requests, 40.0 and 20.0 tokens",
        "  16-s2: 1,200 and 1,100 requests, 3.50M and 3.00M tokens",
    ]
    assert served_lines({}) == []


def test_a_run_on_one_server_says_nothing_of_servers(tmp_path: Path) -> None:
    found = Report.of(make_run(tmp_path / "r", [Level(4, 50.0, 100.0)]), (50.0,))
    assert "by server" not in found.text()
    assert "By server" not in found.write().read_text()
