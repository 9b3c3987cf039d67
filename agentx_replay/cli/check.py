"""``agentx-replay check``: is the server ready, and what is this client's own error here."""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document, width
from agentx_replay.errors import UsageError
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.reason import Reason
from agentx_replay.target import open_machines, open_target, timestamps_of
from agentx_replay.text_format import wrapped

if TYPE_CHECKING:
    from agentx_replay.endpoint.kernel_stamps import Timestamps

_LOOK_S = 2.0
_CEILING_BUDGET_S = 20.0


@click.command(cls=GroupedCommand, params=options_of("check"))
def check(streams: int, rate: float, as_json: bool, **options: Any) -> None:
    """Ask a server what a run needs of it, and measure this client's own error.

    The client is measured on this machine's loopback alone, against a server of our own that
    knows when each token left; it takes about 30 s. Where the kernel says when bytes arrive, the
    client's own timestamps are measured beside the kernel's. With --ray each client machine of the
    cluster is measured instead, and how it reaches the server.

    \b
    agentx-replay check --url http://localhost:8000
    agentx-replay check --streams 256 --rate 40
    """
    settings = Settings(**options)
    if settings.tool_messages and not settings.url:
        raise UsageError(
            "tool-messages-without-url",
            "--tool-messages asks a server, and none is given",
            "add --url",
        )
    found: dict[str, Any] = {}

    def tell(*lines: str) -> None:
        """Say each thing as soon as it is known: all of it takes half a minute."""
        if not as_json:
            say("\n".join(piece for line in lines for piece in wrapped(line, width())))

    here = replace(settings, ray=None, nodes=None)
    servers = [_asked(replace(here, url=(url,)), tell) for url in settings.url]
    if servers:
        found["servers"] = servers
    if settings.ray is None:
        timestamps = timestamps_of(settings.timestamps)
        found["client"], exact = _client(timestamps, streams, rate, tell)
    else:
        found["machines"], exact = _machines(settings, streams, rate, tell)
    if as_json:
        say_document(found)
    sys.exit(0 if exact and all(each["valid"] for each in servers) else 1)


def _asked(settings: Settings, tell: Callable[..., None]) -> dict[str, Any]:
    """Ask a server all that a run needs of it, and tell it; ``valid`` says whether a run on it
    can be.
    """
    from agentx_replay.experiment.cut_prompts import cut_prompts
    from agentx_replay.report.check_lines import invalidating, server_lines, verdict_lines

    try:
        with open_target(settings) as target:
            warnings = [*target.warnings, *cut_prompts(target, target.max_context)]
            told = dict(target.facts)
            tell(*server_lines(told, tuple(warnings)))
            told |= _calibrated(target, tell) if settings.tool_messages else {}
    except UsageError as error:
        reason = Reason(error.code, error.what)
        if not invalidating([reason]):
            raise
        told, warnings = {"url": settings.url[0]}, [reason]
        tell(f"server {settings.url[0]}", *verdict_lines(warnings))
    valid = not invalidating(warnings)
    return told | {"warnings": list(map(asdict, warnings)), "valid": valid}


def _calibrated(target: Target, tell: Callable[..., None]) -> dict[str, Any]:
    """Calibrate tool messages against a server."""
    import uvloop

    from agentx_replay.experiment.calibrating import calibrate
    from agentx_replay.prompts.calibration import summary_document

    if target.endpoint is None:
        return {}
    asking = calibrate(target.endpoint, context_tokens=target.max_context, tool_messages=True)
    calibration = uvloop.run(asking)
    tell(*(f"  {line}" for line in calibration.lines()))
    return {"calibration": summary_document(calibration)}


def _client(
    timestamps: "Timestamps", streams: int, rate: float, tell: Callable[..., None]
) -> tuple[dict[str, Any], bool]:
    """Measure this client's own error, and tell it; return it and whether the load that was asked
    for can be measured accurately.
    """
    import uvloop

    from agentx_replay.analysis.client_error import Load
    from agentx_replay.experiment.ceiling import drive, find_ceiling
    from agentx_replay.experiment.open_files import raise_open_files
    from agentx_replay.report.check_lines import client_line, client_lines, driven_lines, judged
    from agentx_replay.simulator.truth_server import launch_truth_server

    tell(client_line(timestamps))
    raise_open_files()  # the truth server inherits it
    shown: tuple[Timestamps, ...] = (
        ("kernel", "process") if timestamps == "kernel" else (timestamps,)
    )
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
    document = {
        "timestamps": timestamps,
        "loads": [{**asdict(each), "limits": each.limits} for each in driven],
        "ceiling": asdict(ceiling),
    }
    return document, not any(each.limits for each in judged(driven, ceiling))


def _machines(
    settings: Settings, streams: int, rate: float, tell: Callable[..., None]
) -> tuple[list[dict[str, Any]], bool]:
    """Check the client machines, and tell it; return it and whether all of them can play."""
    import uvloop

    from agentx_replay.endpoint.url import parse_base_url
    from agentx_replay.experiment.fleet_check import check_machines
    from agentx_replay.report.machine_sections import checked_lines

    servers = [parse_base_url(url) for url in settings.url]
    asked = ["--streams", str(streams), "--rate", str(rate), "--timestamps", settings.timestamps]
    with open_machines(settings) as fleet:
        tell(f"checking {len(fleet.met)} client machines, about 30 s")
        found = uvloop.run(check_machines(fleet, servers, asked))
    for each in found:
        tell(*checked_lines(each))
    return found, not any(each["limits"] for each in found)
