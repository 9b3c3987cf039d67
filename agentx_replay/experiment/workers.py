"""A level on several worker processes: started, coordinated, listened to, and put together.

The parent plays no lane. It shares one page of memory with its workers (``replay/page.py``) and
has a pipe to each, by which the part goes out and progress and the result come back.
"""

import asyncio
import math
import mmap
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.errors import UsageError
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.part import Part, framed, next_message
from agentx_replay.reason import Reason
from agentx_replay.replay.coordinator import HANG_AFTER_S, Coordinator
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.replay.page import Page, page_bytes
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.window import INTERRUPTED, WindowResult

LANES_A_WORKER: dict[Timestamps, int] = {"kernel": 128, "process": 64}
"""With the kernel's timestamps, a quarter of what a core's CPU could carry: what counts is then how
long requests that are due at one instant wait for each other. A process's own get later, too."""
_LEAVE_TIMEOUT_S = 10.0
_NS = 1_000_000_000


def workers_for(concurrency: int, asked: int | None, timestamps: Timestamps) -> int:
    """Return how many workers play a level: what was asked, or one for ``LANES_A_WORKER`` lanes,
    leaving a core.

    Never more than lanes.
    """
    cores = len(os.sched_getaffinity(0))
    needed = math.ceil(concurrency / LANES_A_WORKER[timestamps])
    wanted = min(needed, cores - 1) if asked is None else asked
    return min(max(wanted, 1), concurrency)


@dataclass(slots=True, eq=False)
class _Worker:
    """One worker process as the parent knows it."""

    number: int
    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    progress: ProgressSnapshot | None = None
    result: ReplayResult | None = None
    refusal: UsageError | None = None


@contextmanager
def _shared_page(workers: int) -> Iterator[tuple[int, Page]]:
    """Give a page that processes can share, and the descriptor to inherit."""
    with tempfile.TemporaryFile() as file:
        file.truncate(page_bytes(workers))
        yield file.fileno(), mmap.mmap(file.fileno(), page_bytes(workers))


async def _start(page: int, part: Part) -> _Worker:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentx_replay.experiment.worker",
             str(theirs.fileno()), str(page)],
            pass_fds=(theirs.fileno(), page),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )  # fmt: skip
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(framed(part))
    return _Worker(part.worker, process, reader, writer)


async def play_on_workers(
    parts: list[Part],
    clock: Clock,
    steered: Callable[[Callable[[], None]], AbstractContextManager[None]],
    show: Callable[[list[ProgressSnapshot]], None],
    *,
    hang_after_s: float = HANG_AFTER_S,
) -> tuple[list[ReplayResult | None], Reason | None]:
    """Have each part played by a process of its own; return how each went, None for a worker that
    died, and why all were stopped, if they were.

    ``steered`` is entered with what stops them. A worker that dies stops the level, and so does
    one that hangs for ``hang_after_s``, which is killed. Raises the ``UsageError`` of a worker.
    """
    plan = parts[0].plan
    crew: list[_Worker] = []
    with ExitStack() as stack:
        descriptor, page = stack.enter_context(_shared_page(len(parts)))
        coordinator = Coordinator(
            page,
            len(parts),
            clock,
            system_cap_ns=round(plan.scenario.system_idle_cap_s * _NS),
            concurrency=plan.concurrency,
            on_hung=lambda number: crew[number].process.kill(),
            hang_after_s=hang_after_s,
        )
        stack.callback(_dismiss, crew)
        crew.extend([await _start(descriptor, part) for part in parts])
        coordinator.start()
        stack.callback(coordinator.finish)
        stack.enter_context(steered(lambda: coordinator.stop(INTERRUPTED)))

        def shown() -> None:
            show([worker.progress for worker in crew if worker.progress is not None])

        await asyncio.gather(*(_listen(worker, coordinator, shown) for worker in crew))
    for worker in crew:
        if worker.refusal is not None:
            raise worker.refusal
    return [worker.result for worker in crew], coordinator.reason


async def _listen(worker: _Worker, coordinator: Coordinator, shown: Callable[[], None]) -> None:
    """Listen to a worker until it has said how it went, or has died; stop the others if the level
    is lost by it.
    """
    while isinstance(message := await next_message(worker.reader), ProgressSnapshot):
        worker.progress = message
        shown()
    if isinstance(message, ReplayResult):
        worker.result = message
        if message.failure is not None:
            coordinator.stop(message.failure)
    elif isinstance(message, UsageError):
        worker.refusal = message
        coordinator.stop(Reason(message.code, message.what))
    else:
        coordinator.stop(died(worker.number, worker.process.wait()))


def died(number: int, exit_code: int) -> Reason:
    """Say how a worker died; a negative exit code is a signal's."""
    how = f"by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
    return Reason("worker-died", f"worker {number} died {how}, so its lanes ended early")


def joint_result(results: list[ReplayResult | None], stopped: Reason | None) -> ReplayResult:
    """Return the outcome of a level from its workers', which opened their windows together."""
    ended = [result for result in results if result is not None]
    windows = [result.window for result in ended if result.window is not None]
    interrupted = stopped == INTERRUPTED
    failure = None if interrupted else stopped
    window = None
    if windows:
        window = WindowResult(
            open_ns=windows[0].open_ns,
            close_ns=max(window.close_ns for window in windows),
            drained_ns=max(window.drained_ns for window in windows),
            nominal_close_ns=windows[0].nominal_close_ns,
            system_skipped_s=max(window.system_skipped_s for window in windows),
            stopped=stopped,
        )
    start_ns = min((result.start_ns for result in ended), default=0)
    return ReplayResult(start_ns, window, failure, interrupted)


def _dismiss(crew: list[_Worker]) -> None:
    """Let go of every worker: the end of its pipe ends it, or it is ended."""
    for worker in crew:
        worker.writer.transport.abort()
    for worker in crew:
        try:
            worker.process.wait(_LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
