"""The commands by name, and what a person sees where one of them ends in an error.

Each is imported when it is called, so that ``--help`` and a run start at once.
"""

import errno
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from agentx_replay import __version__
from agentx_replay.cli import loaded
from agentx_replay.cli.output import reader_gone, say_document, silence
from agentx_replay.errors import UsageError
from agentx_replay.text_format import escaped

_COMMANDS = {
    "run": "measure.run",
    "sweep": "measure.sweep",
    "capacity": "capacity.capacity",
    "plan": "plan.plan",
    "check": "check.check",
    "system": "system.system",
    "report": "report.report",
    "compare": "compare.compare",
    "traces": "traces.traces",
    "simulate": "simulate.simulate",
    "docs": "docs.docs",
}


class _LazyGroup(click.Group):
    """Imports a command's module when the command is asked for; click suggests names out of
    ``commands``.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.commands = {name: click.Command(name) for name in _COMMANDS}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        where = _COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, name = where.split(".")
        command = getattr(importlib.import_module(f"agentx_replay.cli.{module}"), name)
        loaded()
        assert isinstance(command, click.Command)  # noqa: S101 - tells the type checker
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentx-replay")
def cli() -> None:
    """Replay recorded coding-agent sessions against an OpenAI-compatible server and measure it.

    \b
    agentx-replay sweep                                    the demo, with nothing to set up
    agentx-replay sweep --url http://localhost:8000 --concurrency 1,2,4,8 --gpus 8
    agentx-replay report results/NAME
    agentx-replay compare results/A results/B --at 50 --price A=1.50,B=2.26
    """


def _check_encoding(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument that is no UTF-8: no record and no request can hold it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(
                "argument-not-utf8",
                f"the argument {argument!a} is not text in UTF-8",
                "give plain text; a file or directory of such a name has to be renamed",
            ) from None


def run_command_line() -> None:
    """Run the command line; what a person can cause ends in two sentences and an exit code.

    Raises ``KeyboardInterrupt`` where a command was interrupted and had nothing to say of it.
    """
    try:
        _check_encoding(sys.argv[1:])
        # Outside its standalone mode click returns the code of an Exit instead of raising it.
        sys.exit(cli(standalone_mode=False) or 0)
    except UsageError as error:
        _say_as_json(error.code, error.what, error.what_to_do)
        what = f"agentx-replay: {error.what.rstrip('.')} [{error.code}]."
        click.echo(escaped(f"{what}\n{_sentence(error.what_to_do)}"), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _say_as_json("usage", error.format_message(), "see --help")
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as error:
        if isinstance(error.__cause__, EOFError):  # click takes any for the end of a person's input
            raise error.__cause__ from None
        raise KeyboardInterrupt from error
    except OSError as error:
        if not reader_gone(error) and error.errno != errno.ENOSPC:
            raise
        silence()
        if error.errno == errno.ENOSPC:
            click.echo("agentx-replay: there is no space to print to.", err=True)
        sys.exit(1)


def _say_as_json(code: str, what: str, what_to_do: str) -> None:
    """Say an error as JSON too, on standard output, where ``--json`` asks for it."""
    if "--json" in sys.argv:
        say_document({"error": {"code": code, "what": what, "what_to_do": what_to_do}})


def _sentence(text: str) -> str:
    from agentx_replay.report.numerals import capital  # for a mistake alone

    return f"{capital(text)}."
