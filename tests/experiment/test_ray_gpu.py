"""A Ray cluster with a machine that has a GPU, which ``--num-gpus`` claims."""

import json
from pathlib import Path

import pytest
from ray_cluster import two_raylets

pytestmark = [pytest.mark.ray, pytest.mark.long]


def test_a_machine_with_a_gpu_gets_no_agent(tmp_path: Path, slow_server: str) -> None:
    with two_raylets(({"GPU": 1.0}, {})) as cluster:
        out = tmp_path / "run"
        asked = ("sweep", "--ray", cluster.address, "--url", slow_server, "--concurrency", "2",
                 "--window", "1s", "--out", str(out))  # fmt: skip
        none = cluster.command(*asked, "--nodes", "2")
        assert none.returncode == 2
        assert "[too-few-machines]" in none.stderr
        cluster.command(*asked)
        assert len(json.loads((out / "sweep.json").read_text())["machines"]) == 1
