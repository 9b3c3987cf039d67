"""What a careless or hostile person types, and what a shell needs back."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def agentx(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentx_replay", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("plan", "--concurrency", "99999999999"), "levels from 1 to 10,000"),
        (
            ("run", "--virtual", "--concurrency", "9" * 30),
            "is not a list of levels from 1 to 10,000",
        ),
        (("sweep", "--virtual", "--timeout", "nan"), "not a number of seconds"),
        (("sweep", "--virtual", "--timeout", "1e300"), "is not in the range"),
        (("sweep", "--virtual", "--keepalive", "inf"), "is not in the range"),
        (("sweep", "--virtual", "--gpus", "9" * 30), "is not in the range 1<=x<=1000000"),
        (("sweep", "--virtual", "--gpus", "9" * 5000), "is not a valid integer"),
        (("sweep", "--virtual", "--max-context", "9" * 30), "is not in the range"),
        (("sweep", "--workers", "9" * 5000), "is not a number of workers"),
        (("sweep", "--workers", "1_0"), "is not a number of workers"),
        (("sweep", "--concurrency", "1_0"), "'1_0' is not a list of levels"),
        (("sweep", "--concurrency", "٣"), "'٣' is not a list of levels"),
        (("sweep", "--concurrency", "1,"), "'1,' is not a list of levels"),
        (("sweep", "--virtual", "--gpus", "٣"), "'٣' is not a valid integer"),
        (("plan", "--max-context", "1_000"), "'1_000' is not a valid integer"),
        (("sweep", "--virtual", "--at", "3_0"), "'3_0' is not a list of speeds"),
        (("sweep", "--virtual", "--keepalive", "1_0"), "'1_0' is not a valid number"),
        (("check", "--rate", "٣"), "'٣' is not a valid number"),
        (("compare", "a", "b", "--price", "a=1_0"), "a=1_0 is not a number above 0"),
        (("simulate", "--port", "0", "--cache-blocks", "1_0"), "'1_0' is not a valid integer"),
        (("sweep", "--virtual", "--model", ""), "--model is empty"),
        (("run", "--url", "http://127.0.0.1:9", "--model", " "), "--model is empty"),
        (("sweep", "--virtual", "--salt", "\udcff"), "'\\udcff' is not text in UTF-8"),
        (("run", "--url", "http://127.0.0.1:9", "--model", "\udcff"), "is not text in UTF-8"),
        (("plan", "--traces", "/tmp/\udcff"), "is not text in UTF-8"),
        (("simulate", "--port", "0", "--step-base-ms", "nan"), "step_base_ms is nan"),
        (("simulate", "--port", "0", "--cache-blocks", "9" * 20), "cache_blocks is 9999"),
        (("traces", "generate", "/nosuch/x.jsonl"), "/nosuch/x.jsonl cannot be written"),
        (("traces", "generate", "x.txt"), "not named like a corpus"),
    ],
)
def test_absurd_values_are_refused_in_words(arguments: tuple[str, ...], told: str) -> None:
    result = agentx(*arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_a_check_that_found_bad_files_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "good.json").write_text(
        '{"id": "g", "block_size": 64, "hash_id_scope": "local", "requests": '
        '[{"t": 0, "type": "n", "model": "m", "in": 70, "out": 1, "hash_ids": [1]}]}'
    )
    result = agentx("traces", "check", str(tmp_path))
    assert result.returncode == 1
    assert result.stdout.count("bad.json") == 1
    assert result.stdout.endswith("1 session read, 1 could not be read\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_nowhere_to_print_to_is_no_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "agentx_replay", "traces", "stats"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr.strip() == "agentx-replay: there is no space to print to."


def test_a_command_keeps_no_reserve_of_memory_for_arrow() -> None:
    program = (
        "import atexit, sys; from agentx_replay.cli import main; sys.argv[1:] = ['--version'];"
        "atexit.register(lambda: print(__import__('pyarrow').default_memory_pool().backend_name));"
        "main()"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == "system"
