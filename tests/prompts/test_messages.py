"""Messages cut and grown, with ChatML's cost: 3 a conversation, 6 a message, blocks of 64."""

import pytest

from agentx_replay.prompts.messages import (
    Message,
    cut_at,
    end_in_user,
    extend,
    first_message,
    follow,
    open_conversation,
    parting,
    sent_tokens,
)
from agentx_replay.prompts.template import CHATML, Role, TemplateCost

Span = tuple[str, int, int]


def conversation(*spans: tuple[Role, int]) -> Message:
    """Return messages from their roles and ends."""
    last = first_message(*spans[0], CHATML)
    for role, end in spans[1:]:
        last = follow(last, role, end, CHATML)
    return last


def spans(last: Message | None) -> list[Span]:
    found: list[Span] = []
    while last is not None:
        found.append((last.role, last.start, last.end))
        last = last.before
    return found[::-1]


U191 = conversation(("user", 191))
"""A prompt of 200 tokens: 191 words, 6 and 3 of template. It ends short of block 3 (192)."""

U211 = conversation(("user", 211))
"""A prompt of 220 tokens: its words reach past 192."""

GROWN = conversation(("user", 191), ("assistant", 320), ("user", 395))
"""U191 answered by two blocks, then 404 tokens."""


@pytest.mark.parametrize(
    ("input_tokens", "system_end", "expected"),
    [
        (200, 0, [("user", 0, 191)]),
        (300, 192, [("system", 0, 192), ("user", 198, 291)]),
        # 192 words, 6 + 6 of messages, 3: a user message of the opening word alone.
        (207, 192, [("system", 0, 192), ("user", 198, 198)]),
        (9, 0, [("user", 0, 0)]),
    ],
)
def test_a_conversation_opens_with_its_system_message(
    input_tokens: int, system_end: int, expected: list[Span]
) -> None:
    last = open_conversation(input_tokens, system_end, CHATML)
    assert spans(last) == expected
    assert sent_tokens(last, CHATML) == input_tokens


def test_a_template_without_system_messages_gets_one_user_message() -> None:
    cost = TemplateCost(3, 3, 6, 6, 6, takes_system=False)
    assert spans(open_conversation(300, 192, cost)) == [("user", 0, 291)]


def test_an_input_below_the_bare_template_sends_one_bare_message_and_says_its_length() -> None:
    last = open_conversation(5, 0, CHATML)
    assert spans(last) == [("user", 0, 0)]
    assert sent_tokens(last, CHATML) == 9


@pytest.mark.parametrize(
    ("last", "position", "expected"),
    [
        (U211, 192, [("user", 0, 192)]),
        (U191, 192, [("user", 0, 191)]),
        (GROWN, 256, [("user", 0, 191), ("assistant", 197, 256)]),
        (GROWN, 384, [("user", 0, 191), ("assistant", 197, 320), ("user", 326, 384)]),
        # The assistant's words begin at 197: nothing of it is before 192.
        (GROWN, 192, [("user", 0, 191)]),
        (GROWN, 64, [("user", 0, 64)]),
    ],
)
def test_a_cut_keeps_the_words_before_it(
    last: Message, position: int, expected: list[Span]
) -> None:
    assert spans(cut_at(last, position)) == expected


@pytest.mark.parametrize(
    ("kept", "cut", "input_tokens", "output", "expected"),
    [
        # ceil(70 / 64) = 2 blocks of answer, from where the template of the user's ends.
        (U191, 192, 404, 70, [("user", 0, 191), ("assistant", 197, 320), ("user", 326, 395)]),
        (
            cut_at(U211, 192),
            192,
            404,
            70,
            [("user", 0, 192), ("assistant", 198, 320), ("user", 326, 395)],
        ),
        # 3 blocks are new, 5 were answered: the assistant gets 2, so that the user ends it.
        (U191, 192, 404, 300, [("user", 0, 191), ("assistant", 197, 320), ("user", 326, 395)]),
        # One block is new: none is left for an assistant, and the user's message goes on ...
        (cut_at(U211, 192), 192, 276, 70, [("user", 0, 267)]),
        # ... but one that ended short of the cut is kept as sent, so a bare assistant comes next.
        (U191, 192, 276, 70, [("user", 0, 191), ("assistant", 197, 197), ("user", 203, 267)]),
        # Nothing was answered.
        (cut_at(U211, 192), 192, 404, 0, [("user", 0, 395)]),
        # The same prompt again is the same.
        (U191, 192, 200, 70, [("user", 0, 191)]),
        # The cut is inside an assistant's message: the user answers it.
        (
            cut_at(GROWN, 256),
            256,
            404,
            70,
            [("user", 0, 191), ("assistant", 197, 256), ("user", 262, 395)],
        ),
        # 5 tokens after it hold no user message (6 + 6 + 3): the assistant's is cut shorter.
        (
            cut_at(GROWN, 256),
            256,
            261,
            70,
            [("user", 0, 191), ("assistant", 197, 246), ("user", 252, 252)],
        ),
        # The last block is partial, with an id: 330 tokens do not reach the user's words (326 on).
        (
            cut_at(GROWN, 384),
            384,
            330,
            70,
            [("user", 0, 191), ("assistant", 197, 315), ("user", 321, 321)],
        ),
        # The assistant would end before it began: it goes, and the user's ends where it must.
        (cut_at(GROWN, 200), 200, 205, 70, [("user", 0, 196)]),
    ],
)
def test_a_request_grows_by_the_answer_and_then_the_user(
    kept: Message, cut: int, input_tokens: int, output: int, expected: list[Span]
) -> None:
    last = extend(kept, cut, input_tokens, output, CHATML, 64)
    assert spans(last) == expected
    assert sent_tokens(last, CHATML) == input_tokens


def test_a_cut_system_message_is_followed_by_the_user() -> None:
    last = conversation(("system", 192), ("user", 291))
    grown = extend(cut_at(last, 128), 128, 300, 70, CHATML, 64)
    assert spans(grown) == [("system", 0, 128), ("user", 134, 291)]


def test_a_system_message_that_leaves_no_room_is_shortened_then_dropped() -> None:
    system = first_message("system", 128, CHATML)
    assert spans(end_in_user(system, 100, CHATML)) == [("system", 0, 85), ("user", 91, 91)]
    assert spans(end_in_user(system, 14, CHATML)) == [("user", 0, 5)]


def test_dropping_the_system_message_changes_the_conversation_constant() -> None:
    # 38 tokens cannot hold 3 + 30 + 6. A default system prompt comes back: 38 - 23 - 6 words.
    cost = TemplateCost(with_system=3, without_system=23, system=30, user=6, assistant=6)
    last = end_in_user(first_message("system", 128, cost), 38, cost)
    # Of the 23, 17 at least stand before: 23 less the 6 of an answer that may be opened.
    assert spans(last) == [("user", 17, 26)]
    assert sent_tokens(last, cost) == 38


@pytest.mark.parametrize(
    ("earlier", "later", "parts"),
    [
        # They part at the first word one of them lacks.
        (U211, conversation(("user", 192), ("assistant", 320)), [("user", 0), ("assistant", 198)]),
        # What begins another lacks only what follows.
        (U191, GROWN, [("assistant", 197), ("user", 326)]),
    ],
)
def test_two_conversations_part_where_one_of_them_lacks_a_word(
    earlier: Message, later: Message, parts: list[tuple[str, int]]
) -> None:
    rest, position = parting(earlier, later, 192)
    assert [(message.role, message.start) for message in rest] == parts
    assert position == max(192, parts[0][1])
