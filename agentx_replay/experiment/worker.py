"""A worker process: one part of a level, played for the process that started it.

Started by ``workers.py`` as ``python -m agentx_replay.experiment.worker PIPE PAGE ROW ROWS`` with
two inherited descriptors and its row of the page. It reads its part from the pipe, the corpus from
disk, and plays; once a second it sends how it is going, in the end how it went. When the parent is
gone it stops.
"""

import asyncio
import mmap
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import uvloop

from agentx_replay.errors import UsageError
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.part import Part, framed, next_message, play
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.page import page_bytes
from agentx_replay.replay.peers import Member
from agentx_replay.replay.ports import Clock


async def _play(
    part: Part,
    reader: asyncio.StreamReader,
    show: Callable[[ProgressSnapshot], None],
    joining: Callable[[Clock], Member],
) -> ReplayResult:
    with real_clock(asyncio.get_running_loop()) as clock, closing(part.recorder()) as recorder:
        member = joining(clock)

        @contextmanager
        def steered(replay: Replay) -> Iterator[None]:
            def leave(end: asyncio.Task[None]) -> None:
                if not end.cancelled():
                    replay.leave()

            # The parent says nothing after the part: what comes next is its end.
            end = asyncio.create_task(next_message(reader))
            end.add_done_callback(leave)
            member.attend(replay.stop, replay.wake)
            try:
                yield
            finally:
                member.leave()
                end.cancel()

        return await play(part, clock, recorder, steered, show, member)


async def _work(parent: socket.socket, joining: Callable[[Clock], Member]) -> None:
    reader, writer = await asyncio.open_connection(sock=parent)

    def say(message: ProgressSnapshot | ReplayResult | UsageError) -> None:
        writer.write(framed(message))

    try:
        part = await next_message(reader)
        if part is not None:
            say(await _play(part, reader, say, joining))
    except UsageError as error:
        say(error)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def main() -> None:
    """Play one part."""
    pipe, descriptor, row, rows = map(int, sys.argv[1:])
    page = mmap.mmap(descriptor, page_bytes(rows))

    def joining(clock: Clock) -> Member:
        return Member(page, row, rows, clock)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(socket.socket(fileno=pipe), joining))


if __name__ == "__main__":
    main()
