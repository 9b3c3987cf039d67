"""Client machines of a Ray cluster. The only module that imports Ray: it finds the machines, starts
an agent on each, and carries calls to it.

No process that plays lanes runs any of it. Ray is neither started nor stopped here; agents belong
to the process that made them and end with it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from agentx_replay.errors import UsageError
from agentx_replay.experiment.agent import Agent
from agentx_replay.experiment.nodes import MARK, MachineLostError, Node, fit_nodes
from agentx_replay.replay.clock import real_clock

_JOIN_S = 30


class AgentActor:
    """An agent as an actor of Ray. What is a person's to mend is returned, not raised: Ray would
    wrap it.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._agent: Agent | None = None

    async def call(
        self, method: str, *arguments: Any, **named: Any
    ) -> tuple[Any, UsageError | OSError | None]:
        if self._agent is None:  # it needs the loop that calls run on
            clock = self._stack.enter_context(real_clock(asyncio.get_running_loop()))
            self._agent = Agent(clock)
        try:
            return await getattr(self._agent, method)(*arguments, **named), None
        except (UsageError, OSError) as error:
            return None, error


@dataclass(frozen=True, slots=True)
class RayAgent:
    """The driver's end of an ``AgentActor``."""

    actor: Any

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        try:
            answer, error = await self.actor.call.remote(method, *arguments, **named)
        except RayTaskError:
            raise
        except RayError as failure:
            raise MachineLostError(type(failure).__name__) from None
        if error is not None:
            raise error
        return answer


@dataclass(frozen=True, slots=True)
class RayMachines:
    """See ``nodes.Machines``."""

    agents: list[RayAgent]
    addresses: set[str]

    def put(self, body: bytes) -> Any:
        return ray.put(body)


@contextmanager
def ray_machines(address: str, wanted: int | None) -> Iterator[RayMachines]:
    """Connect to the cluster at ``address`` and give an agent on each of ``wanted`` machines (None:
    all that are fit). Raises ``UsageError``.
    """
    # Another cluster's, as the engine's own, would win over the address that was given.
    os.environ.pop("RAY_ADDRESS", None)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # of many kinds, some of which are no RayError
        raise _explained(address, error) from None
    try:
        nodes = _joined(wanted)
        yield RayMachines(_started(nodes), {node.address for node in nodes})
    finally:
        ray.shutdown()


def _joined(wanted: int | None) -> list[Node]:
    """Return the machines that play; so many as are ``wanted`` may still be joining the cluster."""
    for _ in range(_JOIN_S if wanted else 0):
        with suppress(UsageError):
            return fit_nodes(_nodes(), wanted)
        time.sleep(1.0)
    return fit_nodes(_nodes(), wanted)


def _nodes() -> list[Node]:
    return [
        Node(str(node["NodeID"]), str(node["NodeManagerAddress"]), node["Resources"])
        for node in ray.nodes()  # type: ignore[no-untyped-call, unused-ignore]
        if node["Alive"]
    ]


def _started(nodes: Sequence[Node]) -> list[RayAgent]:
    """Start one agent on each of these nodes: a bundle of a placement group for each, which may lie
    on that node alone. A bundle has to ask for something; of its address a node has 1.
    """
    asked = [
        {f"node:{node.address}": 0.001} | ({MARK: 1.0} if MARK in node.resources else {})
        for node in nodes
    ]
    there = [{"ray.io/node-id": node.id} for node in nodes]
    group = placement_group(asked, strategy="STRICT_SPREAD", bundle_label_selector=there)
    remote = ray.remote(AgentActor)
    return [
        RayAgent(
            remote.options(
                num_cpus=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, index),
                max_restarts=0,
                max_task_retries=0,
                enable_task_events=False,  # nobody reads them, and they cost each agent CPU
            ).remote()
        )
        for index in range(len(nodes))
    ]


def _explained(address: str, error: Exception) -> UsageError:
    told = str(error).strip().splitlines()
    text = next((line.strip() for line in told if line.strip()), type(error).__name__)
    if "version mismatch" in str(error).lower():
        return UsageError(
            "ray-version-differs",
            f"the Ray cluster at {address} runs another version of Ray or Python ({text[:200]})",
            "install the same versions on every machine",
        )
    return UsageError(
        "ray-unreachable",
        f"there is no Ray cluster at {address} that this machine belongs to and that takes its "
        f"token ({text[:200]})",
        f"start it here, too, with the token of all: ray start --address {address}",
    )
