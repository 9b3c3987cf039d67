"""Two runs against one warm server, over sockets: what the second finds in its cache."""

from pathlib import Path

from command_line import finished
from small_corpus import corpus, request, session

from agentx_replay.results.run_directory import read_points
from agentx_replay.simulator.process import launch_simulator
from agentx_replay.simulator.server import ServerConfig


def run(url: str, traces: Path, out: Path, salt: str) -> set[int]:
    """Run once; return the cached tokens of each play's first request."""
    finished(
        "run", "--url", url, "--concurrency", "2", "--traces", traces, "--out", out, "--salt", salt,
        "--override", "window_s=1.0",
    )  # fmt: skip
    (point,) = read_points(out)
    rows = point.requests(("play_request", "cached_tokens")).to_pylist()
    return {row["cached_tokens"] for row in rows if row["play_request"] == 0}


def test_another_run_finds_nothing_and_the_same_salt_finds_all(tmp_path: Path) -> None:
    turns = [request(2.0 * turn, range(20 + turn), out=4) for turn in range(30)]
    corpus(tmp_path / "traces", session("one", *turns), session("two", *turns))
    server = launch_simulator(ServerConfig())
    try:
        first, other, again = (
            run(server.url, tmp_path / "traces", tmp_path / f"run{number}", salt)
            for number, salt in enumerate(("a", "b", "a"))
        )
    finally:
        server.close()
    assert first == other == {0}
    # A play's first prompt has 20 blocks at the least; the last of them may be computed again.
    assert min(again) >= 19 * 64
