"""Getting samples onto the disk while a level runs: a part every few seconds, the rest at its end.

The part is written in a thread, so that the closed loop goes on meanwhile; what goes into it is
taken on the loop, so that nothing is shared.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pyarrow as pa

from agentx_replay.results.recorder import PART_INTERVAL_S
from agentx_replay.results.sample_parts import SampleParts


@asynccontextmanager
async def kept_in_parts(
    parts: SampleParts, take: Callable[[], pa.Table], interval_s: float = PART_INTERVAL_S
) -> AsyncIterator[None]:
    """Write what ``take`` gives (the samples since it was last called) while the context is open.

    Raises ``UsageError`` at the end where the disk refused; nothing is taken after that.
    """
    over = asyncio.Event()

    async def repeat() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), interval_s)
            await asyncio.to_thread(parts.write, take())

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        over.set()
        await task
