"""What is said of several servers before the first request."""

from agentx_replay.report.replica_lines import uneven_shares


def test_sessions_that_do_not_divide_evenly_among_servers_are_told() -> None:
    assert uneven_shares((2, 6, 8), 3) == [
        "  concurrency 2: 2 of 3 servers play 1 sessions at a time, the others 0",
        "  concurrency 8: 2 of 3 servers play 3 sessions at a time, the others 2",
    ]
    assert uneven_shares((1, 7), 1) == []
