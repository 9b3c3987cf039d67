"""What a careless or hostile person types, and what a shell needs back."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, finished


def test_a_check_that_found_bad_files_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "good.json").write_text(
        '{"id": "g", "block_size": 64, "hash_id_scope": "local", "requests": '
        '[{"t": 0, "type": "n", "model": "m", "in": 70, "out": 1, "hash_ids": [1]}]}'
    )
    result = finished("traces", "check", str(tmp_path))
    assert result.returncode == 1
    assert result.stdout.count("bad.json") == 1
    assert re.search(r"1 session read, 1 [^\d]*\n$", result.stdout)


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
    assert f" {out}/report.html: " in result.stderr
    assert "[page-not-written]" in result.stderr
    assert len(result.stderr.splitlines()) == 2
