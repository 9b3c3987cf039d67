"""Where messages begin and end over a whole session, with ChatML's cost and blocks of 64."""

from collections.abc import Callable

from agentx_replay.prompts.layout import Layout, SystemPrefix, lay_out
from agentx_replay.prompts.messages import Message
from agentx_replay.prompts.template import CHATML
from agentx_replay.traces.model import Session

Record = Callable[..., Session]


def spans(layout: Layout, index: int) -> list[tuple[str, int, int]]:
    last: Message | None = layout.requests[index].last
    found: list[tuple[str, int, int]] = []
    while last is not None:
        found.append((last.role, last.start, last.end))
        last = last.before
    return found[::-1]


def test_the_system_message_is_the_recorded_tools_and_system_in_whole_blocks(
    record: Record,
) -> None:
    # 60 + 100 = 160 tokens are nearest to 3 blocks of 64 (160 / 64 = 2.5, halves go up).
    layout = lay_out(record([(300, 1, "ABCD")], tool_tokens=60, system_tokens=100), CHATML)
    assert spans(layout, 0) == [("system", 0, 192), ("user", 198, 291)]
    assert layout.system_prefixes == (SystemPrefix(0, 3, 60, 100, 0),)


def test_lengths_under_half_a_block_make_no_system_message(record: Record) -> None:
    layout = lay_out(record([(300, 1, "ABCD")], tool_tokens=31), CHATML)
    assert spans(layout, 0) == [("user", 0, 291)]
    assert layout.system_prefixes == ()


def test_a_prompt_too_short_for_the_system_message_has_none(record: Record) -> None:
    # 192 + 3 + 6 + 6 = 207 tokens at the least.
    layout = lay_out(record([(206, 1, "ABC")], system_tokens=192), CHATML)
    assert spans(layout, 0) == [("user", 0, 197)]
    assert layout.system_prefixes == ()


def test_a_subagent_has_a_system_message_of_its_own_lengths(record: Record) -> None:
    layout = lay_out(
        record(
            [(300, 1, "ABCD")],
            system_tokens=128,
            subagent=[(300, 1, "WXYZ")],
            subagent_lengths=(0, 64),
        ),
        CHATML,
    )
    assert spans(layout, 0) == [("system", 0, 128), ("user", 134, 291)]
    assert spans(layout, 1) == [("system", 0, 64), ("user", 70, 291)]
    assert layout.system_prefixes == (SystemPrefix(0, 2, 0, 128, 0), SystemPrefix(4, 1, 0, 64, 0))


def test_equal_system_lengths_that_were_recorded_as_different_are_ranked(record: Record) -> None:
    lines = [(300, 1, "ABCD"), (300, 1, "WXYZ")]
    layout = lay_out(record(lines, system_tokens=128), CHATML)
    assert [prefix.rank for prefix in layout.system_prefixes] == [0, 1]


def test_a_system_message_past_a_short_block_list_is_no_shared_prefix(record: Record) -> None:
    layout = lay_out(record([(300, 1, "A"), (300, 1, "")], system_tokens=128), CHATML)
    assert spans(layout, 1) == [("system", 0, 128), ("user", 134, 291)]
    assert layout.system_prefixes == (SystemPrefix(0, 1, 0, 128, 0),)


def test_the_answer_is_that_of_the_prompt_that_is_extended(record: Record) -> None:
    # ABC is extended by request 2, not AX, which was sent in between: 65 tokens, 2 blocks.
    layout = lay_out(record([(220, 65, "ABC"), (140, 500, "AX"), (460, 1, "ABCDEFG")]), CHATML)
    assert spans(layout, 2) == [("user", 0, 192), ("assistant", 198, 320), ("user", 326, 451)]


def test_where_no_prompt_ends_at_the_cut_the_latest_that_holds_it_answers(
    record: Record,
) -> None:
    # Both earlier prompts hold AB; the later one's 130 tokens are 3 blocks.
    layout = lay_out(record([(220, 1, "ABC"), (220, 130, "ABD"), (460, 1, "ABEFGHI")]), CHATML)
    assert spans(layout, 2) == [("user", 0, 128), ("assistant", 134, 320), ("user", 326, 451)]


def test_a_fork_keeps_the_messages_of_the_request_that_brought_its_last_block(
    record: Record,
) -> None:
    lines = [
        (200, 64, "ABC"),
        (404, 64, "ABCDEF"),  # assistant: D, user: E F
        (404, 64, "ABCDEG"),  # cut inside the user's message of request 1
    ]
    layout = lay_out(record(lines), CHATML)
    assert spans(layout, 1) == [("user", 0, 191), ("assistant", 197, 256), ("user", 262, 395)]
    # The cut is at 320 and one block is new: no assistant, the user's message ends otherwise.
    assert spans(layout, 2) == spans(layout, 1)


def test_what_is_recorded_later_changes_no_earlier_message(record: Record) -> None:
    lines = [(200, 64, "ABC"), (404, 64, "ABCDEF"), (404, 9, "ABXYZW")]
    whole, part = lay_out(record(lines), CHATML), lay_out(record(lines[:2]), CHATML)
    assert [spans(whole, 0), spans(whole, 1)] == [spans(part, 0), spans(part, 1)]


def test_a_prompt_cut_back_into_an_answer_loses_the_block_its_template_needs(
    record: Record,
) -> None:
    # ABCD of request 2 ends inside the assistant's message of request 1 (positions 197 to 320).
    # Its 256 tokens must end in a user's message: 256 - 3 - 6 - 6 = 241 words remain, so block D
    # (192 to 255) cannot be had whole.
    lines = [(200, 128, "ABC"), (468, 1, "ABCDEFG"), (256, 1, "ABCD")]
    layout = lay_out(record(lines), CHATML)
    assert spans(layout, 2) == [("user", 0, 191), ("assistant", 197, 241), ("user", 247, 247)]


def test_the_same_prompt_again_has_the_same_private_words(record: Record) -> None:
    lines = [(220, 1, "ABC"), (220, 1, "ABC"), (221, 1, "ABC")]
    layout = lay_out(record(lines), CHATML)
    assert [request.private_seed for request in layout.requests] == [0, 0, 2]
    assert spans(layout, 1) == spans(layout, 0)


def test_prompts_with_blocks_missing_have_private_words_of_their_own(record: Record) -> None:
    layout = lay_out(record([(220, 1, "AB"), (220, 1, "AB")]), CHATML)
    assert [request.private_seed for request in layout.requests] == [0, 1]


def test_a_partial_block_with_an_id_is_no_whole_block(record: Record) -> None:
    layout = lay_out(record([(200, 64, "ABCD"), (404, 1, "ABCDEFG")]), CHATML)
    first, second = layout.requests
    assert (first.path_blocks, first.whole_blocks, first.whole_tip) == (4, 3, 2)
    # The next prompt holds block D whole: the answer's words begin where the user's ended.
    assert spans(layout, 1) == [("user", 0, 191), ("assistant", 197, 320), ("user", 326, 395)]
    assert (second.path_blocks, second.whole_blocks, second.whole_tip) == (7, 6, 5)


def test_common_blocks_are_counted_along_both_paths(record: Record) -> None:
    # Blocks in order of first use: A B C D = 0 1 2 3, X Y = 4 5 (after B), Z = 6 (after C).
    layout = lay_out(record([(256, 1, "ABCD"), (256, 1, "ABXY"), (256, 1, "ABCZ")]), CHATML)
    assert layout.common_blocks(3, 5) == 2
    assert layout.common_blocks(6, 3) == 3
    assert layout.common_blocks(5, 1) == 2
    assert layout.common_blocks(3, 3) == 4
    assert layout.common_blocks(-1, 3) == 0


def test_the_blocks_after_a_depth_follow_the_path(record: Record) -> None:
    layout = lay_out(record([(256, 1, "ABCD"), (256, 1, "ABXY"), (256, 1, "ABXZ")]), CHATML)
    assert layout.blocks_after(6, 0).tolist() == [0, 1, 4, 6]
    assert layout.blocks_after(6, 1).tolist() == [1, 4, 6]
    assert layout.blocks_after(6, 3).tolist() == [6]


def test_depth_counts_the_blocks_of_a_path(record: Record) -> None:
    layout = lay_out(record([(256, 1, "ABCD"), (256, 1, "ABXY")]), CHATML)
    assert layout.depth.tolist() == [1, 2, 3, 4, 3, 4]
