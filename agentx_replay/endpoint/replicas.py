"""The ``Endpoint`` port over several servers that are replicas of one: a lane keeps to its own.

A session's prefix lives in the cache of the replica that has seen it, and its subagents share that
prefix, so a whole play stays on one. Which one is the lane's number alone: the same for any number
of workers, and every replica holds the same number of sessions at a time, or one less.
Not for: a connection (client.py), or finding out whether servers are alike (the experiment room).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agentx_replay.endpoint.between_polls import Compose
from agentx_replay.endpoint.client import Client, wire_of
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.replay.ports import Clock, Dispatch, Response


def replica_of(lane: int, replicas: int) -> int:
    """Return the place of the server that plays a lane, from 0: they take turns."""
    return lane % replicas


class Replicas:
    """Sends each lane's requests to its own of several clients."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = clients

    def _place(self, lane: int) -> int:
        return replica_of(lane, len(self._clients))

    async def send(self, dispatch: Dispatch) -> Response:
        """Send one request to its lane's server; the response says which that was."""
        place = self._place(dispatch.lane)
        return replace(await self._clients[place].send(dispatch), replica=place)

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Compose | None = None
    ) -> None:
        self._clients[self._place(lane)].prepare(lane, conversation_id, due_ns, compose)

    def cut(self) -> None:
        for client in self._clients:
            client.cut()

    def conversation_ended(self, conversation_id: str) -> None:
        for client in self._clients:
            client.conversation_ended(conversation_id)

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients))


def open_replicas(servers: Sequence[EndpointSettings], _: Clock) -> Replicas:
    """Return the replicas in the running loop; their responses are parsed in one queue, which
    bounds what the process holds.
    """
    wire = wire_of(servers[0])
    return Replicas([Client(server, wire) for server in servers])
