"""What a play says where the server's own answers are fed back (``--live-history``).

Under ChatML's cost a prompt is 3 tokens, and a message 6 with its opening word; an answer opens
with a word of its own, so its message is 5 tokens and the answer's.
"""

import json
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from calibrated_plays import UnlimitedCache, predicted_blocks, small_sessions
from drawn_recordings import SYSTEM_TOKENS, Line, recordings
from hypothesis import given
from hypothesis import strategies as st

from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.live import LiveComposer, cut_text
from agentx_replay.prompts.prompt import Answer, Prompt
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.simulator.tokens import WordRenderer
from agentx_replay.traces.model import Session

Record = Callable[..., Session]

WORDS = builtin_vocabulary()


def worded(session: Session) -> PlayComposer:
    layout = lay_out(session, CHATML)
    keys = LevelKeys("salt", 1, 0)
    return PlayComposer(layout, chat_wording(WORDS), keys, lane=0, play_number=0)


def live(session: Session) -> LiveComposer:
    return LiveComposer(worded(session), lay_out(session, CHATML), CHATML, WORDS.opening)


def said(tokens: int) -> str:
    """What the simulator answers: a word a token."""
    return " word" * tokens


def answer(tokens: int, prompt_tokens: int | None = None) -> Answer:
    return Answer(said(tokens), tokens, prompt_tokens)


def messages(prompt: Prompt) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(prompt.messages_json())
    return found


def talk(
    session: Session, answers: Mapping[int, Answer | None], conversations: Sequence[int] = (0,) * 9
) -> list[Prompt]:
    """Send a session's requests in order, each answered before the next."""
    play = live(session)
    prompts = []
    for request in session.requests():
        prompts.append(play.prompt(conversations[request.index], request))
        if request.index in answers:
            play.answered(request.index, answers[request.index])
    return prompts


TWO = ((150, 20, "ab"), (300, 5, "abcd"))
"""The second goes on from all of the first: 150 tokens, two whole blocks and 22."""


def test_the_answer_stands_after_the_whole_of_the_prompt_that_it_answers(record: Record) -> None:
    first, second = map(messages, talk(record(TWO), {0: answer(20)}))
    assert second[:2] == [*first, {"role": "assistant", "content": said(20)}]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("answered", "counted", "user_words"),
    [
        # 300 - 3 - (first message: 150 - 3) - 5 - answer - 5 of the last message's 6
        (8, None, 132),
        (20, None, 120),
        (60, None, 80),
        (60, 150, 80),
        (60, 153, 77),  # the server counted three more in the first: made up for
        (60, 148, 82),
        (60, 8, 80),  # 142 too few, and the last message has 142: no count of the prompt
        (60, 0, 80),
    ],
)
def test_the_users_message_makes_up_for_the_length_of_what_came_before(
    record: Record, answered: int, counted: int | None, user_words: int
) -> None:
    second = talk(record(TWO), {0: answer(answered, counted)})[1]
    assert len(messages(second)[2]["content"].split()) == user_words
    assert second.tokens == 300


def test_an_answer_longer_than_the_prompt_grew_is_cut(record: Record) -> None:
    # 300 - 3 - 147 - 5 - the user's 6 = 139
    second = messages(talk(record(TWO), {0: answer(200)})[1])
    assert [each["content"] for each in second[1:]] == [said(139), WORDS.opening]


def test_an_answer_is_said_letter_by_letter(record: Record) -> None:
    text = ' "so"\n\t\\ \u00e9\u4e16\U0001f600 </s>'
    second = messages(talk(record(TWO), {0: Answer(text, 12)})[1])
    assert second[1] == {"role": "assistant", "content": text}


def test_what_was_said_once_stays_as_it_was(record: Record) -> None:
    lines = (*TWO, (420, 5, "abcdef"), (700, 5, "abcdefghij"))
    prompts = talk(record(lines), {0: answer(20), 1: answer(30), 2: answer(40)})
    for earlier, later in pairwise(prompts):
        assert later.messages_json().startswith(earlier.messages_json()[:-1])
    texts = [message["content"] for message in messages(prompts[3])]
    assert texts[1::2] == [said(20), said(30), said(40)]


def test_a_cut_inside_an_answer_keeps_its_beginning(record: Record) -> None:
    # The answer's first word is at position 150 - 3 = 147; three blocks end at 192: 1 + 45 tokens.
    lines = ((150, 100, "ab"), (400, 5, "abcdef"), (330, 5, "abcxy"))
    third = messages(talk(record(lines), {0: answer(100)})[2])
    assert third[1] == {"role": "assistant", "content": said(46)}
    assert third[2]["role"] == "user"


@pytest.mark.parametrize(
    ("lines", "conversations", "said_last"),
    [
        # Another conversation goes on from the same prompt: it says the same answer.
        ((*TWO, (310, 5, "abxy")), (0, 0, 1), [said(20)]),
        # A conversation goes on from its own prompt though another sent it later…
        (((150, 20, "abp"), (150, 20, "abq"), (300, 5, "abcd")), (0, 1, 0), [said(20)]),
        # …but from another's if it shares more of it.
        ((*TWO, (500, 5, "abcdefg")), (0, 1, 0), [said(20), said(30)]),
    ],
)
def test_a_conversation_goes_on_from_the_prompt_of_which_it_shares_most(
    record: Record, lines: Sequence[Line], conversations: Sequence[int], said_last: list[str]
) -> None:
    _, _, third = talk(record(lines), {0: answer(20), 1: answer(30)}, conversations=conversations)
    assert [each["content"] for each in messages(third)[1::2]] == said_last


@pytest.mark.parametrize(
    "lines",
    [
        ((150, 20, "ab"), (300, 5, "abcd")),
        ((150, 20, "ab"), (250, 5, "abc")),
        ((150, 200, "ab"), (300, 5, "abcd"), (300, 5, "abcd"), (220, 5, "abx")),
    ],
)
def test_where_nothing_was_answered_the_prompts_are_those_of_words(
    record: Record, lines: Sequence[Any]
) -> None:
    session, play = record(lines), worded(record(lines))
    words = [play.prompt(0, request).messages_json() for request in session.requests()]
    assert [prompt.messages_json() for prompt in talk(session, {})] == words


@pytest.mark.parametrize(
    ("line", "answers", "says"),
    [
        ((300, 5, "abcd"), {0: answer(20)}, True),
        ((300, 5, "abcd"), {0: None}, False),  # it ended, and said nothing that can be said
        ((300, 5, "abcd"), {}, None),  # not asked, in the warm-up, or not ended yet
        *(
            (line, {0: said}, None)
            for said in (None, answer(20))
            for line in (
                (180, 5, "ab"),  # grew by less than a message of words takes
                (250, 5, "axy"),  # keeps one block of two
                (150, 20, "ab"),  # the same again
                (250, 5, "xyz"),  # keeps nothing
            )
        ),
    ],
)
def test_a_prompt_tells_whether_it_says_the_answer_that_it_was_to_say(
    record: Record, line: Line, answers: Mapping[int, Answer | None], says: bool | None
) -> None:
    first, second = talk(record(((150, 20, "ab"), line)), answers)
    assert (first.says_answer, second.says_answer) == (None, says)
    if not says:
        words = talk(record(((150, 20, "ab"), line)), {})
        assert second.messages_json() == words[1].messages_json()


def test_an_answer_that_came_after_the_next_prompt_was_made_is_not_said(record: Record) -> None:
    session = record((*TWO, (310, 5, "abxy")))
    first, second, third = session.requests()
    play = live(session)
    play.prompt(0, first)
    early = messages(play.prompt(1, second))
    play.answered(0, answer(20))
    late = messages(play.prompt(2, third))
    assert early[1]["content"].startswith(WORDS.opening)
    assert late[1]["content"] == said(20)


def test_what_was_answered_counts_as_held(record: Record) -> None:
    # 150 + 60 - 1 (the last token of an answer is computed only when it is read) = 209: 3 blocks
    _, second = talk(record(TWO), {0: answer(60)})
    assert second.reusable_tokens == 192
    assert talk(record(TWO), {})[1].reusable_tokens == 128


@pytest.mark.parametrize(
    ("of", "held"),
    [
        # The first prompt has 200 tokens, three whole blocks, and the answer 64 more: 263 is four.
        (Answer(said(64), 64), 256),
        (Answer(said(64), 64, whole=False), 192),  # reasoning stands between in the cache
        (Answer(said(300), 300), 192),  # cut to the room there is
    ],
)
def test_an_answer_counts_as_held_only_where_it_is_all_that_was_generated(
    record: Record, of: Answer, held: int
) -> None:
    lines = ((200, 20, "abc"), (400, 5, "abcdef"))
    assert talk(record(lines), {0: of})[1].reusable_tokens == held


def test_blocks_are_named_up_to_the_first_answer(record: Record) -> None:
    # The answer begins at 147: two blocks are words for sure.
    with_words, with_answer = talk(record(TWO), {})[1], talk(record(TWO), {0: answer(20)})[1]
    assert with_answer.block_ids.tolist() == with_words.block_ids[:2].tolist()


@pytest.mark.parametrize("tokens", [1, 7, 64, 150])
def test_lengths_and_sharing_are_the_recorded_ones_whatever_was_answered(tokens: int) -> None:
    """Counted and cached as the simulator does both."""
    renderer = WordRenderer()
    for session in small_sessions():
        play, cache = live(session), UnlimitedCache(64)
        for request in sorted(session.requests(), key=lambda each: each.recorded_order):
            prompt = renderer.chat(messages(play.prompt(0, request)), [])
            assert len(prompt) == request.input_tokens
            assert cache.blocks_hit(prompt) >= predicted_blocks(request, 64)
            play.answered(request.index, answer(tokens, len(prompt)))


@given(
    lines=recordings(),
    system_tokens=SYSTEM_TOKENS,
    chance=st.randoms(use_true_random=False),
)
def test_any_answers_leave_a_conversation_of_the_recorded_length(
    record: Record, lines: list[Line], system_tokens: int, chance: Random
) -> None:
    """On three conversations, some of whose requests are answered and some of which end."""
    session = record(lines, system_tokens=system_tokens)
    layout, play = lay_out(session, CHATML), live(session)
    for request in session.requests():
        prompt = play.prompt(chance.randrange(3), request)
        conversation = messages(prompt)
        counted = len(WordRenderer().chat(conversation, []))
        assert counted == prompt.tokens == layout.requests[request.index].tokens
        roles = [message["role"] for message in conversation if message["role"] != "system"]
        assert roles == ["user", *["assistant", "user"] * (len(roles) // 2)]
        if chance.random() < 0.8:
            play.answered(request.index, answer(chance.choice((1, 20, 100, 400)), counted))
        if chance.random() < 0.1:
            play.forget(chance.randrange(3))


@given(lines=recordings(), chance=st.randoms(use_true_random=False))
def test_counts_of_the_server_that_cannot_be_break_no_conversation(
    record: Record, lines: list[Line], chance: Random
) -> None:
    session = record(lines)
    play = live(session)
    for request in session.requests():
        prompt = play.prompt(0, request)
        roles = [message["role"] for message in messages(prompt)]
        assert roles == ["user", *["assistant", "user"] * (len(roles) // 2)]
        told = chance.choice((0, 1, 10**9, prompt.tokens + chance.randint(-200, 200)))
        play.answered(request.index, answer(chance.choice((1, 20, 400)), told))


def test_text_that_nothing_goes_on_from_is_let_go(record: Record) -> None:
    """Each of 40 prompts of 250 blocks (80 kB) shares nothing with the one before."""
    letters = [chr(0x100 + n) for n in range(40 * 250)]
    lines = [(16_000, 5, "".join(letters[250 * n : 250 * (n + 1)])) for n in range(40)]
    session = record(lines)
    play = live(session)
    tracemalloc.start()
    for request in session.requests():
        play.prompt(0, request).messages_json()
        play.answered(request.index, answer(5))
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 5 * 80_000


def test_a_text_of_words_is_cut_to_the_token() -> None:
    assert cut_text("able bird call dark", 4, 2) == "able bird"
    assert cut_text(said(7), 7, 3) == said(3)
    assert cut_text("able", 1, 1) == "able"
    assert cut_text("ab", 9, 2) == "a"
