"""Messages between a level's parent and its workers: pickles, each after its length.

Both ends are the same program on one machine, started by each other; nobody else has the socket.
"""

import asyncio
import pickle
from typing import Any

_LENGTH_BYTES = 8


def framed(message: object) -> bytes:
    """Return a message as it goes over the pipe."""
    body = pickle.dumps(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def next_message(reader: asyncio.StreamReader) -> Any:
    """Return the next message, None where the other end is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
