"""``agentx-replay check``: is the server ready, and what is this client's own error here."""

import functools
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from agentx_replay.cli.numerals import Real, Whole
from agentx_replay.cli.options import config_option, tool_messages_option
from agentx_replay.cli.output import say, say_document
from agentx_replay.cli.target import (
    TargetOptions,
    open_target,
    server_options,
    timestamps_of,
)
from agentx_replay.errors import UsageError

if TYPE_CHECKING:
    from agentx_replay.endpoint.kernel_stamps import Timestamps

_LOOK_S = 2.0
_CEILING_BUDGET_S = 20.0


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options by which a server is talked to."""
    return functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(server_options), command
    )


@click.command()
@click.option("--streams", default=64, show_default=True, type=Whole(1, 1024))
@click.option(
    "--rate",
    default=50.0,
    show_default=True,
    type=Real(1.0, 1000.0),
    metavar="TOK/S",
    help="Tokens per second of each stream.",
)
@click.option(
    "--url", multiple=True, metavar="URL", help="A server to look at; repeatable. Default: none."
)
@_options
@tool_messages_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@config_option
def check(streams: int, rate: float, as_json: bool, **options: Any) -> None:
    """Ask a server what a run needs of it, and measure this client's own error.

    The client is measured on this machine's loopback alone, against a server of our own that
    knows when each token left; it takes about 30 s. Where the kernel says when bytes arrive, the
    client's own timestamps are measured beside the kernel's.

    \b
    agentx-replay check --url http://localhost:8000
    agentx-replay check --streams 256 --rate 40
    """
    import uvloop

    from agentx_replay.experiment.calibrating import calibrate
    from agentx_replay.experiment.ceiling import Load, drive, find_ceiling
    from agentx_replay.experiment.open_files import raise_open_files
    from agentx_replay.prompts.calibration import summary_document
    from agentx_replay.report.check_lines import client_lines, judged, server_lines
    from agentx_replay.simulator.truth_server import launch_truth_server

    raise_open_files()  # the truth server inherits it
    found: dict[str, Any] = {}
    lines: list[str] = []
    tool_messages = options.pop("tool_messages")
    target_options = TargetOptions.taken_from(options)
    timestamps = timestamps_of(target_options.timestamps)
    both: tuple[Timestamps, ...] = ("kernel", "process")
    shown = both if timestamps == "kernel" else (timestamps,)
    if tool_messages and not target_options.url:
        raise UsageError(
            "tool-messages-without-url",
            "--tool-messages asks a server, and none is given",
            "add --url",
        )
    for url in target_options.url:
        with open_target(replace(target_options, url=(url,))) as target:
            told = {**target.facts, "warnings": list(map(asdict, target.warnings))}
            lines += server_lines(dict(target.facts), target.warnings)
            if tool_messages and target.endpoint is not None:
                asking = calibrate(
                    target.endpoint, context_tokens=target.max_context, tool_messages=True
                )
                calibration = uvloop.run(asking)
                told["calibration"] = summary_document(calibration)
                lines += [f"  {line}" for line in calibration.lines()]
            found.setdefault("servers", []).append(told)
    process = launch_truth_server()
    try:
        driven = [
            uvloop.run(drive(process.url, Load(streams, rate, _LOOK_S, burst, by)))
            for burst in (False, True)
            for by in shown
        ]
        ceiling = uvloop.run(find_ceiling(process.url, rate, _CEILING_BUDGET_S, timestamps))
    finally:
        process.close()
    lines += client_lines(driven, ceiling)
    found["client"] = {
        "timestamps": timestamps,
        "loads": [{**asdict(each), "limits": each.limits} for each in driven],
        "ceiling": asdict(ceiling),
    }
    if as_json:
        say_document(found)
    else:
        say("\n".join(lines))
    sys.exit(1 if any(each.limits for each in judged(driven, ceiling)) else 0)
