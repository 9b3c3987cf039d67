"""What a careless or hostile person types, and what a shell needs back."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, finished


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
        (("sweep", "--virtual", "--starts", "0"), "0 is not in the range 1<=x<=100"),
        (("plan", "--starts", "101"), "101 is not in the range 1<=x<=100"),
        (("run", "--virtual", "--starts", "2.0"), "'2.0' is not a valid integer"),
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
    result = finished(*arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_a_check_that_found_bad_files_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "good.json").write_text(
        '{"id": "g", "block_size": 64, "hash_id_scope": "local", "requests": '
        '[{"t": 0, "type": "n", "model": "m", "in": 70, "out": 1, "hash_ids": [1]}]}'
    )
    result = finished("traces", "check", str(tmp_path))
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


@pytest.mark.parametrize("command", [("traces", "check"), ("plan", "--skip-bad", "--traces")])
def test_a_corpus_of_bad_files_alone_names_each(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[]")
    result = finished(*command, str(tmp_path))
    assert result.returncode == 2
    assert "[corpus-without-session]" in result.stderr
    assert f"  {tmp_path / 'a.json'}: " in result.stderr
    assert f"  {tmp_path / 'b.json'}: " in result.stderr


SESSION = (
    '{"id": "ID", "block_size": 64, "hash_id_scope": "local", "requests": '
    '[{"t": 0, "type": "n", "model": "m", "in": 70, "out": 1, "hash_ids": [1]}]}'
)


def test_characters_that_move_a_cursor_are_shown_escaped(tmp_path: Path) -> None:
    """An id of NUL, ESC, a C1 control and a mark that turns the reading direction round."""
    (tmp_path / "t.json").write_text(SESSION.replace("ID", "a\\u0000\\u001b[31m\\u009b\\u202e"))
    result = finished("traces", "stats", str(tmp_path))
    assert "a\\x00\\x1b[31m\\x9b\\u202e" in result.stdout
    assert not {"\0", "\x1b", "\x9b", "\u202e"} & set(result.stdout)


def test_so_are_those_of_paths_in_messages_and_errors(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(SESSION)
    out = tmp_path / "r\x1b[31m"
    run = ("run", "--virtual", "--concurrency", "1", "--override", "window_s=0.1")
    result = finished(*run, "--traces", str(tmp_path / "t.json"), "--out", str(out))
    assert "\\x1b[31m" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    absent = finished("report", f"{tmp_path}/\x1b[2J")
    assert "\\x1b[2J" in absent.stderr


def test_a_page_that_cannot_be_written_takes_nothing_off_the_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert finished("run", "--virtual", "--concurrency", "2", "--out", str(out)).returncode == 0
    (out / "report.html").unlink()
    (out / "report.html").mkdir()
    (out / "report.html" / "in the way").write_text("")
    result = finished("report", str(out))
    assert result.returncode == 2
    assert "tok/s" in result.stdout
    assert result.stderr == (
        "agentx-replay: the report is whole, but its page was not written: cannot write "
        f"{out}/report.html: Is a directory [page-not-written].\n"
        "Copy the run to where you may write, and report on the copy.\n"
    )
