"""Where messages begin and end over a whole session, with ChatML's cost and blocks of 64."""

from collections.abc import Callable
from typing import Any

import pytest

from agentx_replay.prompts.layout import Layout, SystemPrefix, lay_out
from agentx_replay.prompts.messages import Message
from agentx_replay.prompts.template import CHATML
from agentx_replay.traces.model import Session

Record = Callable[..., Session]
Span = tuple[str, int, int]


def spans(layout: Layout, index: int) -> list[Span]:
    last: Message | None = layout.requests[index].last
    found: list[Span] = []
    while last is not None:
        found.append((last.role, last.start, last.end))
        last = last.before
    return found[::-1]


SYSTEM: dict[str, tuple[dict[str, Any], list[list[Span]], list[SystemPrefix]]] = {
    # 60 + 100 = 160 tokens are nearest to 3 blocks of 64 (160 / 64 = 2.5, halves go up).
    "the recorded tools and system in whole blocks": (
        {"lines": [(300, 1, "ABCD")], "tool_tokens": 60, "system_tokens": 100},
        [[("system", 0, 192), ("user", 198, 291)]],
        [SystemPrefix(0, 3, 60, 100, 0)],
    ),
    "none of under half a block": (
        {"lines": [(300, 1, "ABCD")], "tool_tokens": 31},
        [[("user", 0, 291)]],
        [],
    ),
    # 192 + 3 + 6 + 6 = 207 tokens at the least.
    "none in a prompt that is too short": (
        {"lines": [(206, 1, "ABC")], "system_tokens": 192},
        [[("user", 0, 197)]],
        [],
    ),
    "a subagent has its own": (
        {
            "lines": [(300, 1, "ABCD")],
            "system_tokens": 128,
            "subagent": [(300, 1, "WXYZ")],
            "subagent_lengths": (0, 64),
        },
        [
            [("system", 0, 128), ("user", 134, 291)],
            [("system", 0, 64), ("user", 70, 291)],
        ],
        [SystemPrefix(0, 2, 0, 128, 0), SystemPrefix(4, 1, 0, 64, 0)],
    ),
    "equal lengths that were recorded as different are ranked": (
        {"lines": [(300, 1, "ABCD"), (300, 1, "WXYZ")], "system_tokens": 128},
        [[("system", 0, 128), ("user", 134, 291)]] * 2,
        [SystemPrefix(0, 2, 0, 128, 0), SystemPrefix(4, 2, 0, 128, 1)],
    ),
    "past a short block list it is no shared prefix": (
        {"lines": [(300, 1, "A"), (300, 1, "")], "system_tokens": 128},
        [[("system", 0, 128), ("user", 134, 291)]] * 2,
        [SystemPrefix(0, 1, 0, 128, 0)],
    ),
}


@pytest.mark.parametrize(("of", "messages", "prefixes"), SYSTEM.values(), ids=SYSTEM)
def test_a_first_prompt_opens_with_a_system_message(
    record: Record, of: dict[str, Any], messages: list[list[Span]], prefixes: list[SystemPrefix]
) -> None:
    layout = lay_out(record(**of), CHATML)
    assert [spans(layout, index) for index in range(len(messages))] == messages
    assert list(layout.system_prefixes) == prefixes


GROWN = [("user", 0, 191), ("assistant", 197, 256), ("user", 262, 395)]
LATER: dict[str, tuple[list[tuple[int, int, str]], list[Span]]] = {
    # ABC is extended by request 2, not AX, which was sent in between: 65 tokens, 2 blocks.
    "the answer is that of the prompt that is extended": (
        [(220, 65, "ABC"), (140, 500, "AX"), (460, 1, "ABCDEFG")],
        [("user", 0, 192), ("assistant", 198, 320), ("user", 326, 451)],
    ),
    # Both earlier prompts hold AB; the later one's 130 tokens are 3 blocks.
    "if no prompt ends at the cut, of the latest that holds it": (
        [(220, 1, "ABC"), (220, 130, "ABD"), (460, 1, "ABEFGHI")],
        [("user", 0, 128), ("assistant", 134, 320), ("user", 326, 451)],
    ),
    # Assistant: D, user: E F.
    "growth is an answer and the user's": ([(200, 64, "ABC"), (404, 64, "ABCDEF")], GROWN),
    # The cut is at 320 and one block is new: no assistant, the user's message ends otherwise.
    "a fork keeps the messages of the request that brought its last block": (
        [(200, 64, "ABC"), (404, 64, "ABCDEF"), (404, 64, "ABCDEG")],
        GROWN,
    ),
    # ABCD of request 2 ends inside the assistant's message of request 1 (positions 197 to 320).
    # Its 256 tokens must end in a user's message: 256 - 3 - 6 - 6 = 241 words remain, so block D
    # (192 to 255) cannot be had whole.
    "a prompt cut back into an answer loses the block its template needs": (
        [(200, 128, "ABC"), (468, 1, "ABCDEFG"), (256, 1, "ABCD")],
        [("user", 0, 191), ("assistant", 197, 241), ("user", 247, 247)],
    ),
    # D is partial in the first prompt and whole in the next: the answer's words begin where the
    # user's ended.
    "a partial block with an id is no whole block": (
        [(200, 64, "ABCD"), (404, 1, "ABCDEFG")],
        [("user", 0, 191), ("assistant", 197, 320), ("user", 326, 395)],
    ),
}


@pytest.mark.parametrize(("lines", "messages"), LATER.values(), ids=LATER)
def test_a_later_prompt_keeps_messages_and_adds_some(
    record: Record, lines: list[tuple[int, int, str]], messages: list[Span]
) -> None:
    layout = lay_out(record(lines), CHATML)
    assert spans(layout, len(lines) - 1) == messages
    # What is recorded later changes no earlier message.
    before = lay_out(record(lines[:-1]), CHATML)
    assert all(spans(layout, i) == spans(before, i) for i in range(len(lines) - 1))


@pytest.mark.parametrize(
    ("lines", "seeds"),
    [
        # The same prompt again has the same private words; a longer one has its own.
        ([(220, 1, "ABC"), (220, 1, "ABC"), (221, 1, "ABC")], [0, 0, 2]),
        # With blocks missing nothing says that two prompts are the same.
        ([(220, 1, "AB"), (220, 1, "AB")], [0, 1]),
    ],
)
def test_private_words_are_those_of_the_first_request_of_the_same_prompt(
    record: Record, lines: list[tuple[int, int, str]], seeds: list[int]
) -> None:
    layout = lay_out(record(lines), CHATML)
    assert [request.private_seed for request in layout.requests] == seeds


def test_a_partial_block_is_in_the_path_and_not_among_the_whole_blocks(record: Record) -> None:
    layout = lay_out(record([(200, 64, "ABCD"), (404, 1, "ABCDEFG")]), CHATML)
    blocks = [(r.path_blocks, r.whole_blocks, r.whole_tip) for r in layout.requests]
    assert blocks == [(4, 3, 2), (7, 6, 5)]


def test_paths_are_compared_and_cut_by_depth(record: Record) -> None:
    # Blocks in order of first use: A B C D = 0 1 2 3, X Y = 4 5 (after B), Z = 6 (after C),
    # W = 7 (after X).
    lines = [(256, 1, "ABCD"), (256, 1, "ABXY"), (256, 1, "ABCZ"), (256, 1, "ABXW")]
    layout = lay_out(record(lines), CHATML)
    assert layout.depth.tolist() == [1, 2, 3, 4, 3, 4, 4, 4]
    pairs = {(3, 5): 2, (6, 3): 3, (5, 1): 2, (3, 3): 4, (-1, 3): 0}
    assert {pair: layout.common_blocks(*pair) for pair in pairs} == pairs
    after = {depth: layout.blocks_after(7, depth).tolist() for depth in (0, 1, 3)}
    assert after == {0: [0, 1, 4, 7], 1: [1, 4, 7], 3: [7]}
