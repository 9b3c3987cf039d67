"""A run in a terminal, where its live line and its report are on one screen."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from command_line import SHORT, all_shown

ROOT = Path(__file__).resolve().parents[2]
QUICK = (*SHORT, "--override", "window_s=2.0", "--override", "grace_s=5.0")


def test_nothing_is_written_behind_a_levels_live_line(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [
            sys.executable, "-m", "agentx_replay", "sweep", "--concurrency", "1,2", *QUICK,
            "--workers", "1", "--out", str(tmp_path / "out"),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
    ):  # fmt: skip
        os.close(follower)
        text = all_shown(leader)
    os.close(leader)
    lines = text.split("\r\n")
    live = [line for line in lines if "c=1 " in line or "c=2 " in line]
    assert live
    # Erased in place, again and again, and at the end: what follows begins an empty line.
    for line in live:
        shown = line.split("\r\x1b[K")
        assert not re.match(r"c=\d", shown[-1]), line
        assert all(re.match(r"c=\d ", each) for each in shown[:-1])
