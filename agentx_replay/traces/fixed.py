"""Sessions of one turn and of fixed lengths, as tests of kernels play them: 8K/1K, 32K/1K, 100K/1K.

Pure. Of each prompt a share, from its beginning, is the system prompt of all; every other block is
its session's own. The scenario ``fixed`` plays them.
"""

from collections.abc import Iterator
from typing import Any

from agentx_replay.traces import fits
from agentx_replay.traces.generate import BLOCK_TOKENS


def fixed_corpus(
    input_tokens: int, output_tokens: int, sessions: int, sharing: float = 0.0
) -> Iterator[dict[str, Any]]:
    """Yield sessions of ``input_tokens`` in and ``output_tokens`` out; all share the first
    ``sharing`` of the prompt, in whole blocks.
    """
    blocks = input_tokens // BLOCK_TOKENS
    shared = round(blocks * sharing)
    new_tokens = input_tokens - shared * BLOCK_TOKENS
    request = {
        "type": "s",
        "t": 0.0,
        "model": "agent",
        "in": input_tokens,
        "out": output_tokens,
        "api_time": round(fits.duration_s(input_tokens, new_tokens, output_tokens), 3),
    }
    for number in range(sessions):
        first = shared + number * (blocks - shared)
        own = range(first, first + blocks - shared)
        yield {
            "id": f"fixed-{number + 1}",
            "models": ["agent"],
            "block_size": BLOCK_TOKENS,
            "hash_id_scope": "global",
            "tool_tokens": 0,
            "system_tokens": shared * BLOCK_TOKENS,
            "requests": [{**request, "hash_ids": [*range(shared), *own]}],
        }
