"""An endpoint without a server that notes every request's bytes in a file of its own process.

It can be sent to a worker process. Its answers take a while, and their timestamps are as
uncertain as its timer is late; one worker can be made to die.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from agentx_replay.endpoint.requests import Requests
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.replay.ports import Clock, Dispatch, ErrorCategory, Response, Status
from agentx_replay.results.schema import REQUESTS

BUSY_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Orders:
    """``directory`` is where the notes go. Who sends a request of ``deadly_lane`` once
    ``deadly_parts`` workers have written a part of their requests there sends its own process
    ``deadly_signal``. With ``odd_lanes_fail`` their requests do. An answer takes ``answer_s``. A
    loop is kept busy for ``busy_s`` every ``BUSY_EVERY_S``.
    """

    directory: Path
    deadly_lane: int | None = None
    deadly_parts: int = 0
    deadly_signal: signal.Signals = signal.SIGKILL
    odd_lanes_fail: bool = False
    busy_s: float = 0.0
    answer_s: float = 0.010


class RecordingEndpoint:
    """See the module."""

    def __init__(self, orders: Orders, clock: Clock) -> None:
        self._orders = orders
        self._clock = clock
        self._chat = Requests(EndpointSettings(parse_base_url("http://127.0.0.1:1"), "m"))
        self._cut = asyncio.Event()
        self._open = True
        if orders.busy_s:
            self._keep_busy()
        self._notes = (orders.directory / f"{os.getpid()}.sent").open("w")

    async def send(self, dispatch: Dispatch) -> Response:
        send_ns = self._clock.now_ns()
        body = b"".join(self._chat.request(dispatch))
        self._notes.write(f"{dispatch.request_id} {sha256(body).hexdigest()}\n")
        self._die_if_told(dispatch)
        cut = await self._answered()
        end_ns = self._clock.now_ns()
        failing = self._orders.odd_lanes_fail and dispatch.lane % 2 == 1
        status = Status.CUT if cut else Status.FAILED if failing else Status.OK
        count = min(dispatch.max_tokens, 5)
        late_ns = max(0, end_ns - send_ns - round(self._orders.answer_s * 1e9))
        return Response(
            status=status,
            send_ns=send_ns,
            end_ns=end_ns,
            arrival_ns=np.linspace(send_ns, end_ns, count).astype(np.int64),
            prompt_tokens=dispatch.prompt.tokens,
            completion_tokens=dispatch.max_tokens,
            error_category=ErrorCategory.RESET if failing else None,
            first_token_uncertainty_ns=late_ns,
            last_token_uncertainty_ns=late_ns,
        )

    async def _answered(self) -> bool:
        """Wait for the answer's time; True where it was cut."""
        try:
            await asyncio.wait_for(self._cut.wait(), self._orders.answer_s)
        except TimeoutError:
            return False
        return True

    def _die_if_told(self, dispatch: Dispatch) -> None:
        if dispatch.lane != self._orders.deadly_lane:
            return
        parts = REQUESTS.parts(self._orders.directory).glob("part-*")
        if len({part.name.split("-")[1] for part in parts}) >= self._orders.deadly_parts:
            os.kill(os.getpid(), self._orders.deadly_signal)

    def _keep_busy(self) -> None:
        until_s = time.monotonic() + self._orders.busy_s
        while time.monotonic() < until_s:
            pass
        if self._open:
            asyncio.get_running_loop().call_later(BUSY_EVERY_S, self._keep_busy)

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Callable[[], int]
    ) -> None:
        """There is no connection to make."""

    def cut(self) -> None:
        self._cut.set()
        self._cut = asyncio.Event()

    def conversation_ended(self, conversation_id: str) -> None:
        """There is no connection."""

    async def close(self) -> None:
        self._open = False
        self._notes.close()


def sent_bytes(directory: Path) -> dict[str, str]:
    """The fingerprint of each request's bytes, by its name."""
    lines = [line for file in directory.glob("*.sent") for line in file.read_text().splitlines()]
    found = dict(line.split() for line in lines)
    assert len(found) == len(lines), "a request was sent twice"
    return found
