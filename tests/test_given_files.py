"""A file that a person names is read whole, or is refused in one sentence; none is waited for."""

import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refuses

from agentx_replay import given_files
from agentx_replay.cli.measure import run
from agentx_replay.cli.options import read_config
from agentx_replay.endpoint.settings import TlsSettings
from agentx_replay.errors import UsageError
from agentx_replay.experiment.calibrating import read_calibration
from agentx_replay.given_files import read_given
from agentx_replay.prompts.tokenizer_file import vocabulary_from_tokenizer
from agentx_replay.results.run_directory import read_json
from agentx_replay.scenario import load_scenario


def read_as_config(path: Path) -> None:
    read_config(run.make_context("run", []), run.params[0], path)


def read_as_tokenizer(path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the extra: tokenizers")
    vocabulary_from_tokenizer(path)


READERS: dict[str, Callable[[Path], object]] = {
    "the config file {}": read_as_config,
    "scenario file {}": lambda path: load_scenario(str(path)),
    "the calibration {}": read_calibration,
    "the CA file {}": lambda path: TlsSettings(str(path)).context(),
    "{}": read_json,
    "{} ": read_as_tokenizer,
}
BY_ANY = pytest.mark.parametrize(("called", "read"), READERS.items(), ids=list(READERS))


@BY_ANY
def test_a_directory_a_device_and_nothing_are_refused(
    tmp_path: Path, called: str, read: Callable[[Path], object]
) -> None:
    for name, made, told in (
        ("directory.toml", Path.mkdir, "is not a file"),
        ("device.toml", lambda path: path.symlink_to("/dev/zero"), "is not a file"),
        ("nothing.toml", lambda path: None, "cannot be read (No such file or directory)"),
    ):
        made(tmp_path / name)
        with pytest.raises(UsageError) as refused:
            read(tmp_path / name)
        assert refused.value.what == f"{called.strip().format(tmp_path / name)} {told}"


@BY_ANY
def test_a_file_that_would_fill_the_memory_is_refused_by_its_size(
    tmp_path: Path, called: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "huge.toml"
    path.touch()
    os.truncate(path, 2**40)  # a hole, which takes no room on the disk
    with refuses("file-too-large", "huge.toml"):
        read(path)


@pytest.mark.parametrize("called", [name for name in READERS if "config" not in name])
def test_a_pipe_is_refused_without_being_opened(tmp_path: Path, called: str) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with refuses("not-a-file", "pipe.toml"):
        READERS[called](tmp_path / "pipe.toml")


def test_options_are_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("gpus = 3",))
    writer.start()
    context = run.make_context("run", ["--config", str(tmp_path / "pipe")])
    writer.join()
    assert context.params["gpus"] == 3


def test_what_a_shell_puts_in_place_of_a_command_is_such_a_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"gpus = 3")
    os.close(writer)
    context = run.make_context("run", ["--config", f"/dev/fd/{reader}"])
    os.close(reader)
    assert context.params["gpus"] == 3


@pytest.mark.parametrize("opened", [False, True], ids=["nobody has it open", "nobody writes"])
def test_a_pipe_that_nobody_writes_is_given_up(
    tmp_path: Path, opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_files, "PIPE_WAIT_S", 0.0)
    os.mkfifo(tmp_path / "pipe")
    other = os.open(tmp_path / "pipe", os.O_RDWR) if opened else None
    with refuses("file-silent", "0"):
        read_as_config(tmp_path / "pipe")
    if other is not None:
        os.close(other)


def test_a_pipe_without_end_is_read_up_to_the_limit() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"=" * 1000)
    path = Path(f"/dev/fd/{reader}")
    with refuses("file-too-large", "0"):
        read_given(path, "mine", "stop", most_bytes=999, pipe=True)
    os.close(reader)
    os.close(writer)


def test_reading_a_small_file_takes_little_room(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert read_given(path, "the file", "name another") == b"{}"
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**20
    finally:
        tracemalloc.stop()


def test_a_file_of_several_pieces_is_whole_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    text = b"0123456789abcdef" * (3 * 2**16)  # three MiB
    path.write_bytes(text)
    assert read_given(path, "the file", "name another", most_bytes=3 * 2**20) == text
    with refuses("file-too-large", "2"):
        read_given(path, "the file", "name another", most_bytes=3 * 2**20 - 1)
