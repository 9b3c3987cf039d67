"""Tiny recordings: a prompt is a string of letters, a letter a block, equal prefixes shared."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from agentx_replay.traces.model import (
    NO_BLOCK,
    BlockTrie,
    RecordedRequest,
    Session,
    Subagent,
)

Line = tuple[int, int, str]
"""Input tokens, output tokens, blocks."""

Record = Callable[..., Session]


class _Trie:
    def __init__(self) -> None:
        self.block_of: dict[str, int] = {"": NO_BLOCK}
        self.parent: list[int] = []
        self.run_first: list[int] = []

    def request(self, index: int, line: Line) -> RecordedRequest:
        input_tokens, output_tokens, letters = line
        prefixes = [letters[: n + 1] for n in range(len(letters))]
        known = sum(prefix in self.block_of for prefix in prefixes)
        first_new = len(self.parent)
        for prefix in prefixes[known:]:
            block, parent = len(self.parent), self.block_of[prefix[:-1]]
            follows = parent == block - 1 and parent != NO_BLOCK
            self.run_first.append(self.run_first[parent] if follows else block)
            self.parent.append(parent)
            self.block_of[prefix] = block
        return RecordedRequest(
            index=index,
            recorded_order=index,
            t_s=float(index),
            start_s=float(index),
            duration_s=None,
            think_time_s=None,
            model="m",
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            tip_block=self.block_of[letters],
            block_count=len(letters),
            known_blocks=known,
            first_new_block=first_new,
        )


def _subagent(requests: tuple[RecordedRequest, ...], tools: int, system: int) -> Subagent:
    return Subagent("a", "Explore", "completed", 0.0, False, 0.0, None, tools, system, requests)


def _record(
    lines: Sequence[Line],
    *,
    tool_tokens: int = 0,
    system_tokens: int = 0,
    subagent: Sequence[Line] = (),
    subagent_lengths: tuple[int, int] = (0, 0),
    session_id: str = "s",
    block_size: int = 64,
) -> Session:
    """Return a session of ``lines``, then of one subagent's."""
    trie = _Trie()
    main = tuple(trie.request(index, line) for index, line in enumerate(lines))
    inner = tuple(trie.request(len(main) + n, line) for n, line in enumerate(subagent))
    return Session(
        id=session_id,
        block_size=block_size,
        tool_tokens=tool_tokens,
        system_tokens=system_tokens,
        entries=(*main, _subagent(inner, *subagent_lengths)) if inner else main,
        blocks=BlockTrie(
            np.array(trie.parent, np.int32).reshape(-1),
            np.array(trie.run_first, np.int32).reshape(-1),
        ),
    )


@pytest.fixture(scope="session")
def record() -> Record:
    return _record
