"""What ``check --ray`` finds out about each client machine: how well its clock is known, how it
reaches the server, and how much it can drive.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import orjson

from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.errors import UsageError
from agentx_replay.experiment.fleet import Fleet
from agentx_replay.experiment.nodes import (
    ClockEstimate,
    Machine,
    ask,
    between_levels,
    clock_limit,
    estimate_clock,
)
from agentx_replay.replay.clock import LoopClock

_CONNECTIONS = 16
_CHECK_S = 300.0


async def check_machines(
    fleet: Fleet, servers: Sequence[BaseUrl], arguments: Sequence[str]
) -> list[dict[str, Any]]:
    """Check all machines at once, each with ``check`` and these arguments. Return of each, as JSON,
    what it is, its ``clock``, the median time to connect to each server, what ``check`` says of its
    ``client``, and the ``limits`` that keep it from playing.

    Raises ``UsageError`` for one that is lost, or does not reach a server.
    """
    clock = LoopClock(asyncio.get_running_loop(), time.monotonic_ns)
    # One after another and before the load, as it will be before a level.
    clocks = []
    for machine in fleet.met:
        with between_levels(machine):
            clocks.append(await estimate_clock(machine.agent, clock))
    checking = (
        _check(machine, known, servers, arguments)
        for machine, known in zip(fleet.met, clocks, strict=True)
    )
    return list(await asyncio.gather(*checking))


async def _check(
    machine: Machine,
    clock: ClockEstimate,
    servers: Sequence[BaseUrl],
    arguments: Sequence[str],
) -> dict[str, Any]:
    took_s = [await _connected(machine, server) for server in servers]
    told = await ask(machine, "command", "check", "--json", *arguments, within_s=_CHECK_S)
    client = orjson.loads(told)["client"]
    limits = [why for load in client["loads"] for why in load["limits"]]
    return {
        **machine.about.document(),
        "clock": asdict(clock),
        "connect_p50_s": took_s,
        "client": client,
        "limits": [*filter(None, [clock_limit(clock)]), *limits],
    }


async def _connected(machine: Machine, server: BaseUrl) -> float:
    """Return the median time to connect, in s."""
    asked = "connect", server.host, server.port, _CONNECTIONS
    try:
        return float(np.median(await ask(machine, *asked, within_s=_CHECK_S)))
    except OSError as error:
        raise UsageError(
            "server-unreachable-from-machine",
            f"machine {machine.about.host} does not reach {server} ({error})",
            "give a URL by which every client machine reaches the server",
            exit_code=3,
        ) from None
