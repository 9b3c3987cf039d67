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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.errors import UsageError
from agentx_replay.experiment.early_stop import Looks
from agentx_replay.experiment.live_view import ProgressSnapshot
from agentx_replay.experiment.part import Part, framed, next_message
from agentx_replay.reason import Reason
from agentx_replay.replay.coordinator import HANG_AFTER_S, RELEASE_AHEAD_NS, Coordinator
from agentx_replay.replay.decision import Decider, LevelState, MachineState, Rules
from agentx_replay.replay.driver import ReplayResult
from agentx_replay.replay.page import page_bytes
from agentx_replay.replay.peers import LOOK_EVERY_NS
from agentx_replay.replay.ports import Clock
from agentx_replay.replay.window import INTERRUPTED, WindowResult
from agentx_replay.units import NS_PER_S

LANES_A_WORKER: dict[Timestamps, int] = {"kernel": 128, "process": 64}
"""With the kernel's timestamps, a quarter of what a core's CPU could carry: what counts is then how
long requests that are due at one instant wait for each other. A process's own get later, too."""
_LEAVE_TIMEOUT_S = 10.0


def workers_for(
    concurrency: int, asked: int | None, timestamps: Timestamps, cores: int | None = None
) -> int:
    """Return how many workers play a level: what was asked, or one for ``LANES_A_WORKER`` lanes,
    leaving a core.

    Never more than lanes. ``cores`` are those of the machine that plays; None: this one.
    """
    cores = cores or len(os.sched_getaffinity(0))
    needed = math.ceil(concurrency / LANES_A_WORKER[timestamps])
    wanted = min(needed, cores - 1) if asked is None else asked
    return min(max(wanted, 1), concurrency)


def workers_on(
    machines: int, concurrency: int, asked: int | None, timestamps: Timestamps, cores: int
) -> int:
    """Return how many workers play a level in all on several machines of ``cores`` each."""
    machines = min(machines, concurrency)
    each = workers_for(math.ceil(concurrency / machines), asked, timestamps, cores)
    return min(machines * each, concurrency)


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


class Crew:
    """The worker processes of one machine and the page that they share.

    A worker that dies stops them all, and so does one that hangs for ``hang_after_s``, which is
    killed. ``decided`` is the coordinator's; ``shown`` is called when a worker has told its
    progress.
    """

    def __init__(
        self,
        workers: Sequence[int],
        clock: Clock,
        decided: Callable[[MachineState], LevelState],
        shown: Callable[[], None] = lambda: None,
        *,
        hang_after_s: float = HANG_AFTER_S,
        look_every_ns: int = LOOK_EVERY_NS,
    ) -> None:
        self._numbers = workers
        self._shown = shown
        self._crew: list[_Worker] = []
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - dismiss() closes it
        self._file.truncate(page_bytes(len(workers)))
        self.coordinator = Coordinator(
            mmap.mmap(self._file.fileno(), page_bytes(len(workers))),
            workers,
            clock,
            decided,
            on_hung=lambda row: self._crew[row].process.kill(),
            hang_after_s=hang_after_s,
            look_every_ns=look_every_ns,
        )

    async def play(self, parts: Sequence[bytes]) -> list[ReplayResult | None]:
        """Have each part (``framed``) played by a process of its own; return how each went, None
        for a worker that died. Raises the ``UsageError`` of a worker.
        """
        for row, part in enumerate(parts):
            self._crew.append(await self._start(row, part))
        self.coordinator.start()
        try:
            await asyncio.gather(*map(self._listen, self._crew))
        finally:
            self.coordinator.finish()
        for worker in self._crew:
            if worker.refusal is not None:
                raise worker.refusal
        return [worker.result for worker in self._crew]

    def progress(self) -> list[ProgressSnapshot]:
        return [worker.progress for worker in self._crew if worker.progress is not None]

    def leave(self) -> None:
        """Let go of every worker: the end of its pipe has it stop and end what is in flight."""
        for worker in self._crew:
            worker.writer.transport.abort()

    def dismiss(self) -> None:
        """Return when every worker has ended, by itself or, after a while, killed."""
        self.leave()
        for worker in self._crew:
            try:
                worker.process.wait(_LEAVE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self._file.close()

    async def dismissed(self) -> None:
        """``dismiss`` in a thread: the caller's loop goes on answering other machines."""
        await asyncio.to_thread(self.dismiss)

    async def _start(self, row: int, part: bytes) -> _Worker:
        ours, theirs = socket.socketpair()
        page = self._file.fileno()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "agentx_replay.experiment.worker",
                 str(theirs.fileno()), str(page), str(row), str(len(self._numbers))],
                pass_fds=(theirs.fileno(), page),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )  # fmt: skip
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(part)
        return _Worker(self._numbers[row], process, reader, writer)

    async def _listen(self, worker: _Worker) -> None:
        """Listen to a worker until it has said how it went, or has died; stop the others if the
        level is lost by it.
        """
        while isinstance(message := await next_message(worker.reader), ProgressSnapshot):
            worker.progress = message
            self._shown()
        if isinstance(message, ReplayResult):
            worker.result = message
            if message.failure is not None:
                self.coordinator.stop(message.failure)
        elif isinstance(message, UsageError):
            worker.refusal = message
            self.coordinator.stop(Reason(message.code, message.what))
        else:
            self.coordinator.stop(died(worker.number, worker.process.wait()))


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
    one that hangs for ``hang_after_s``, which is killed. The level is stopped early by what all
    workers have counted together. Raises the ``UsageError`` of a worker.
    """
    plan, early = parts[0].plan, parts[0].early
    looks = None if early is None else Looks(early, plan.scenario.window_s)
    cap_ns = round(plan.scenario.system_idle_cap_s * NS_PER_S)

    def shown() -> None:
        progress = crew.progress()
        show(progress)
        told = [each.tallies for each in progress if each.tallies is not None]
        reason = looks.reason(told) if looks is not None and len(told) == len(parts) else None
        if reason is not None:
            crew.coordinator.stop(reason)

    crew = Crew(
        range(len(parts)),
        clock,
        Decider(Rules(cap_ns, plan.concurrency, RELEASE_AHEAD_NS), clock),
        shown,
        hang_after_s=hang_after_s,
    )
    try:
        with steered(lambda: crew.coordinator.stop(INTERRUPTED)):
            results = await crew.play([framed(part) for part in parts])
    finally:
        crew.dismiss()
    return results, crew.coordinator.stopped


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
