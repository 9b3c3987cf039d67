"""What ``--help`` says can be run, and is so."""

import shlex
from pathlib import Path

import pytest
from claude_logs import SESSION, write_log
from command_line import finished

from agentx_replay.cli.options import options_of


def help_of(*command: str, every: bool = False) -> str:
    """A command's help as one line, blanks run together."""
    return " ".join(finished(*command, "--help-all" if every else "--help").stdout.split())


def names_of(command: str) -> list[str]:
    return [max(option.opts, key=len) for option in options_of(command)]


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("traces",),
        *(("traces", of) for of in ("stats", "check", "import", "pack", "generate")),
    ],
)
def test_the_commands_in_a_help_run_as_printed(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    write_log(tmp_path / "claude" / "projects" / "s.jsonl", *SESSION)
    lines = finished(*command, "--help").stdout.splitlines()
    examples = [line for line in lines if line.startswith("  agentx-replay ")]
    assert examples
    for example in examples:
        _, *arguments = shlex.split(example)
        done = finished(*arguments)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        # Without anything a sweep plays demo, at the levels of any other.
        ("sweep", "Default: quick, and demo without --url, --concurrency and --override."),
        ("sweep", "Default: auto with --url, else 2,12,32."),
        ("run", "or a .toml. Default: quick."),
        ("plan", "Levels, each planned on its own. [default: 8]"),
        ("plan", "--max-context TOKENS Leave out sessions that need more. Default: none."),
        ("simulate", "--step-base-ms NUMBER [default: 6.0]"),
        ("simulate", "--max-running INTEGER [default: 256]"),
    ],
)
def test_defaults_are_told_as_they_are(command: str, says: str) -> None:
    assert says in help_of(command)


@pytest.mark.parametrize("command", ["run", "sweep", "capacity", "plan", "check"])
def test_help_is_short_and_help_all_has_every_option(command: str) -> None:
    short = finished(command, "--help", COLUMNS="80").stdout
    every = help_of(command, every=True)
    assert len(short.splitlines()) <= 60
    assert [name for name in names_of(command) if f"{name} " not in every] == []
    assert "--tool-messages" in every
    assert "--tool-messages" not in short


def test_a_bound_that_is_none_is_not_shown() -> None:
    assert "None" not in help_of("simulate")
