"""``agentx-replay check``: is the server ready, and what is this client's own error here."""

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document
from agentx_replay.errors import UsageError
from agentx_replay.experiment.settings import Settings
from agentx_replay.target import open_target, timestamps_of

if TYPE_CHECKING:
    from agentx_replay.endpoint.kernel_stamps import Timestamps

_LOOK_S = 2.0
_CEILING_BUDGET_S = 20.0


@click.command(cls=GroupedCommand, params=options_of("check"))
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
    from agentx_replay.report.check_lines import (
        client_line,
        client_lines,
        driven_lines,
        invalidating,
        judged,
        server_lines,
    )
    from agentx_replay.simulator.truth_server import launch_truth_server

    raise_open_files()  # the truth server inherits it
    found: dict[str, Any] = {}

    def tell(*lines: str) -> None:
        """Say each thing as soon as it is known: all of it takes half a minute."""
        if not as_json:
            say("\n".join(lines))

    settings = Settings(**options)
    tool_messages = settings.tool_messages
    timestamps = timestamps_of(settings.timestamps)
    both: tuple[Timestamps, ...] = ("kernel", "process")
    shown = both if timestamps == "kernel" else (timestamps,)
    if tool_messages and not settings.url:
        raise UsageError(
            "tool-messages-without-url",
            "--tool-messages asks a server, and none is given",
            "add --url",
        )
    failed = False
    for url in settings.url:
        with open_target(replace(settings, url=(url,))) as target:
            told = {**target.facts, "warnings": list(map(asdict, target.warnings))}
            tell(*server_lines(dict(target.facts), target.warnings))
            failed = failed or bool(invalidating(target.warnings))
            if tool_messages and target.endpoint is not None:
                asking = calibrate(
                    target.endpoint, context_tokens=target.max_context, tool_messages=True
                )
                calibration = uvloop.run(asking)
                told["calibration"] = summary_document(calibration)
                tell(*(f"  {line}" for line in calibration.lines()))
            found.setdefault("servers", []).append(told)
    tell(client_line(timestamps))
    process = launch_truth_server()
    driven = []
    try:
        loads = (Load(streams, rate, _LOOK_S, burst, by) for burst in (False, True) for by in shown)
        for load in loads:
            driven.append(uvloop.run(drive(process.url, load)))
            tell(*driven_lines(driven[-1]))
        tell(f"  finding how much one worker can drive, up to {_CEILING_BUDGET_S:g} s")
        ceiling = uvloop.run(find_ceiling(process.url, rate, _CEILING_BUDGET_S, timestamps))
    finally:
        process.close()
    tell(*client_lines(driven, ceiling))
    found["client"] = {
        "timestamps": timestamps,
        "loads": [{**asdict(each), "limits": each.limits} for each in driven],
        "ceiling": asdict(ceiling),
    }
    if as_json:
        say_document(found)
    sys.exit(1 if failed or any(each.limits for each in judged(driven, ceiling)) else 0)
