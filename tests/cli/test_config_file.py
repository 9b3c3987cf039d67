"""A TOML file of options: each value is of the option's kind, or is refused in one sentence."""

from pathlib import Path

import click
import pytest
from refusals import refuses

from agentx_replay.cli.check import check
from agentx_replay.cli.measure import run, sweep
from agentx_replay.cli.options import OPTION_NAMES
from agentx_replay.cli.plan import plan
from agentx_replay.errors import UsageError

WHOLE = "not a whole number"
TEXT = "not a text"
FLAG = "not true or false"


def options(command: click.Command, directory: Path, text: str) -> dict[str, object]:
    """What the command would be called with, the file's options alone."""
    file = directory / "mine.toml"
    file.write_text(text, encoding="utf-8")
    context = command.make_context("agentx-replay", ["--config", str(file)])
    return context.params


@pytest.mark.parametrize("command", [run, sweep, plan])
def test_live_history_is_said_in_a_file(tmp_path: Path, command: click.Command) -> None:
    assert options(command, tmp_path, "")["live_history"] is False
    assert options(command, tmp_path, "live-history = true")["live_history"] is True


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gpus = 1.9", f"gpus is 1.9, {WHOLE}"),
        ("gpus = true", f"gpus is true, {WHOLE}"),
        ('gpus = "2"', f"gpus is '2', {WHOLE}"),
        ("gpus = [1]", f"gpus is a list of 1, {WHOLE}"),
        ("gpus = {a = 1}", f"gpus is a table of 1, {WHOLE}"),
        ("gpus = nan", f"gpus is nan, {WHOLE}"),
        ("starts = 1.5", f"starts is 1.5, {WHOLE}"),
        ("max-context = 5.9", f"max-context is 5.9, {WHOLE}"),
        ("concurrency = 2.7", "concurrency is 2.7, not a whole number or a list of whole numbers"),
        ("concurrency = true", "concurrency is true, not a whole number or a list"),
        ("concurrency = [1, 2.5]", "concurrency is a list of 2, not a whole number or a list"),
        ("concurrency = [true]", "concurrency is a list of 1, not a whole number or a list"),
        ('concurrency = ["1"]', "concurrency is a list of 1, not a whole number or a list"),
        ("at = [true]", "at is a list of 1, not a number or a list of numbers"),
        ("at = {}", "at is a table of 0, not a number or a list of numbers"),
        ("workers = 2.5", 'workers is 2.5, not a whole number or "auto"'),
        ("workers = true", 'workers is true, not a whole number or "auto"'),
        ("timeout = 1979-01-01", "timeout is 1979-01-01, not a number"),
        ("timeout = []", "timeout is a list of 0, not a number"),
        ("keepalive = true", "keepalive is true, not a number"),
        ("out = 5", f"out is 5, {TEXT}"),
        ('out = ["a"]', f"out is a list of 1, {TEXT}"),
        ("out = {a = 1}", f"out is a table of 1, {TEXT}"),
        ("out = true", f"out is true, {TEXT}"),
        ("traces = 5", f"traces is 5, {TEXT}"),
        ("traces = []", f"traces is a list of 0, {TEXT}"),
        ("tokenizer = 5", f"tokenizer is 5, {TEXT}"),
        ("calibration = []", f"calibration is a list of 0, {TEXT}"),
        ('out = "\\u0000"', f"out is '\\x00', {TEXT} without NUL"),
        ('traces = "\\u0000"', f"traces is '\\x00', {TEXT}"),
        ('scenario = "\\u0000.toml"', f"scenario is '\\x00.toml', {TEXT}"),
        ('tokenizer = "a\\u0000"', f"tokenizer is 'a\\x00', {TEXT}"),
        ('calibration = "a\\u0000"', f"calibration is 'a\\x00', {TEXT}"),
        ("model = 5", f"model is 5, {TEXT}"),
        ("salt = true", f"salt is true, {TEXT}"),
        ("api-key-env = []", f"api-key-env is a list of 0, {TEXT}"),
        ("endpoint = []", f"endpoint is a list of 0, {TEXT}"),
        ("body = {top_k = 1}", f"body is a table of 1, {TEXT}"),
        ("insecure = 5", f"insecure is 5, {FLAG}"),
        ("insecure = []", f"insecure is a list of 0, {FLAG}"),
        ('insecure = "no"', f"insecure is 'no', {FLAG}"),
        ("skip-bad = {}", f"skip-bad is a table of 0, {FLAG}"),
        ('virtual = "false"', f"virtual is 'false', {FLAG}"),
        ("url = 5", "url is 5, not a text or a list of texts"),
        ("url = [5]", "url is a list of 1, not a text or a list of texts"),
        ('url = [["a"]]', "url is a list of 1, not a text or a list of texts"),
        ("url = {a = 1}", "url is a table of 1, not a text or a list of texts"),
        ('header = {a = "b"}', "header is a table of 1, not a text or a list of texts"),
        ("override = {seed = 3}", "override is a table of 1, not a text or a list of texts"),
        ("as_json = true", "unknown option 'as_json'"),
        ('config = "other.toml"', "unknown option 'config'"),
        ("max-context = 5\nmax_context = 6", "names max_context twice"),
        ("gpus = " + "9" * 5000, "invalid TOML: it holds a number of thousands of digits"),
        ("gpus = " + "[" * 3000, "invalid TOML: it is nested too deeply"),
        ("gpus =", "invalid TOML: Invalid value"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_file_and_key(
    tmp_path: Path, line: str, told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        options(sweep, tmp_path, line)
    assert str(tmp_path / "mine.toml") in refused.value.what
    assert told in refused.value.what


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("json = true", "as_json", True),
        ("skip-bad = true", "skip_bad", True),
        ("skip_bad = true", "skip_bad", True),
        ("gpus = 0x10", "gpus", 16),
        ("timeout = 30000", "timeout", 30000.0),
        ('timeout = "6h"', "timeout", 21600.0),
        ('keepalive = "500ms"', "keepalive", 0.5),
        ('max-context = "128k"', "max_context", 128_000),
        ("at = [30, 42.5]", "at", (30.0, 42.5)),
        ("at = 50", "at", (50.0,)),
        ('at = "30,50"', "at", (30.0, 50.0)),
        ("concurrency = 3", "concurrency", (3,)),
        ("concurrency = [2, 4]", "concurrency", (2, 4)),
        ('concurrency = "2,4"', "concurrency", (2, 4)),
        ('workers = "auto"', "workers", None),
        ("workers = 2", "workers", 2),
        ('url = "http://a:1"', "url", ("http://a:1",)),
        ('url = ["http://a:1", "http://b:1"]', "url", ("http://a:1", "http://b:1")),
        ('salt = "né"', "salt", "né"),
    ],
)
def test_a_value_of_the_options_kind_is_taken(
    tmp_path: Path, line: str, name: str, value: object
) -> None:
    assert options(sweep, tmp_path, line)[name] == value


def test_every_command_with_a_config_file_reads_it_alike(tmp_path: Path) -> None:
    with refuses("config-value-unfit", "2.7"):
        options(run, tmp_path, "concurrency = 2.7")
    with refuses("several-levels", "2"):
        options(run, tmp_path, "concurrency = [2, 4]")
    with refuses("levels-unfit", "''"):
        options(run, tmp_path, "concurrency = []")
    assert options(run, tmp_path, "concurrency = [2]")["concurrency"] == (2,)
    assert options(plan, tmp_path, "concurrency = [2, 4]")["concurrency"] == (2, 4)
    with refuses("config-value-unfit", "1.5"):
        options(check, tmp_path, "streams = 1.5")
    assert options(check, tmp_path, "rate = 40")["rate"] == 40.0


@pytest.mark.parametrize("command", [run, sweep, plan, check])
def test_a_file_may_name_what_another_command_has(tmp_path: Path, command: click.Command) -> None:
    lines = """
        url = "http://127.0.0.1:9/v1"
        concurrency = [2]
        at = [30, 50]
        tool-messages = true
        resume = true
        simulate = true
        streams = 4
    """
    found = options(command, tmp_path, lines)
    assert found["tool_messages"] is True
    with refuses("config-option-twice", "max-context"):
        options(command, tmp_path, "max_context = 5\nmax-context = 6")


@pytest.mark.parametrize("command", [run, sweep, plan, check])
def test_every_option_of_these_commands_is_known_in_every_file(command: click.Command) -> None:
    names = {name[2:] for each in command.params for name in each.opts if name.startswith("--")}
    assert names - OPTION_NAMES == {"config"}


@pytest.mark.parametrize(
    ("key", "way_out"),
    [
        ("concurency", "use concurrency"),
        ("max_contxt", "use max-context"),
        ("stream", "use streams"),
        ("help", "use the long option names of --help"),
        ("zzz", "use the long option names of --help"),
    ],
)
def test_what_no_command_has_is_refused_with_the_nearest_name(
    tmp_path: Path, key: str, way_out: str
) -> None:
    with pytest.raises(UsageError, match=f"unknown option '{key}'") as refused:
        options(plan, tmp_path, f"{key} = 1")
    assert refused.value.what_to_do == way_out


def test_a_file_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'salt = "\xff"')
    with refuses("config-not-toml"):
        sweep.make_context("agentx-replay", ["--config", str(tmp_path / "mine.toml")])
