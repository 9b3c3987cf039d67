"""A TOML file of options: each value is of the option's kind, or is refused in one sentence."""

from pathlib import Path

import click
import pytest
from golden_files import Goldens
from refusals import refuses

from agentx_replay.cli.check import check
from agentx_replay.cli.measure import run, sweep
from agentx_replay.cli.options import OPTION_NAMES
from agentx_replay.cli.plan import plan
from agentx_replay.errors import UsageError


def options(command: click.Command, directory: Path, text: str) -> dict[str, object]:
    """What the command would be called with, the file's options alone."""
    file = directory / "mine.toml"
    file.write_text(text, encoding="utf-8")
    names = ["-h", "--help"]  # as the group has them: a command keeps those it was first asked for
    context = command.make_context(
        "agentx-replay", ["--config", str(file)], help_option_names=names
    )
    return context.params


@pytest.mark.parametrize("command", [run, sweep, plan])
def test_live_history_is_said_in_a_file(tmp_path: Path, command: click.Command) -> None:
    assert options(command, tmp_path, "")["live_history"] is False
    assert options(command, tmp_path, "live-history = true")["live_history"] is True


OF_ANOTHER_KIND = (
    "gpus = 1.9", "gpus = true", 'gpus = "2"', "gpus = [1]", "gpus = {a = 1}", "gpus = nan",
    "starts = 1.5", "max-context = 5.9", "concurrency = 2.7", "concurrency = true",
    "concurrency = [1, 2.5]", "concurrency = [true]", 'concurrency = ["1"]', "at = [true]",
    "at = {}", "workers = 2.5", "workers = true", "timeout = 1979-01-01", "timeout = []",
    "keepalive = true", "out = 5", 'out = ["a"]', "out = {a = 1}", "out = true", "traces = 5",
    "traces = []", "tokenizer = 5", "calibration = []", 'out = "\\u0000"', 'traces = "\\u0000"',
    'scenario = "\\u0000.toml"', 'tokenizer = "a\\u0000"', 'calibration = "a\\u0000"', "model = 5",
    "salt = true", "api-key-env = []", "endpoint = []", "body = {top_k = 1}", "insecure = 5",
    "insecure = []", 'insecure = "no"', "skip-bad = {}", 'virtual = "false"', "url = 5",
    "url = [5]", 'url = [["a"]]', "url = {a = 1}", 'header = {a = "b"}', "override = {seed = 3}",
)  # fmt: skip
OTHERWISE_UNFIT = (
    ("as_json = true", "config-option-unknown"),
    ('config = "other.toml"', "config-option-unknown"),
    ("concurency = 1", "config-option-unknown"),
    ("max_contxt = 1", "config-option-unknown"),
    ("help = 1", "config-option-unknown"),
    ("max-context = 5\nmax_context = 6", "config-option-twice"),
    ("gpus = " + "9" * 5000, "config-not-toml"),
    ("gpus = " + "[" * 3000, "config-not-toml"),
    ("gpus =", "config-not-toml"),
)


def test_what_is_unfit_is_refused_by_file_and_code(tmp_path: Path, goldens: Goldens) -> None:
    said = []
    unfit = [(line, "config-value-unfit") for line in OF_ANOTHER_KIND]
    for line, code in (*unfit, *OTHERWISE_UNFIT):
        with pytest.raises(UsageError) as refused:
            options(sweep, tmp_path, line)
        assert (line, refused.value.code) == (line, code)
        what, what_to_do = refused.value.what, refused.value.what_to_do
        assert str(tmp_path / "mine.toml") in what
        said.append(f"{line[:60]}\n  {what}; {what_to_do}\n".replace(str(tmp_path), "PLACE"))
    goldens.check_text("outputs/config-errors", "".join(said))


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
    assert names - OPTION_NAMES == {"config", "help-all"}


def test_a_file_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'salt = "\xff"')
    with refuses("config-not-toml"):
        sweep.make_context("agentx-replay", ["--config", str(tmp_path / "mine.toml")])


def test_an_empty_path_is_wrong_usage_too(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter) as refused:
        options(run, tmp_path, 'out = ""')
    assert refused.value.param is not None
    assert refused.value.param.name == "out"
