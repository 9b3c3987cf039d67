"""What a play sends: exact lengths, recorded sharing, isolation, the same bytes each time."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from drawn_recordings import SYSTEM_TOKENS, Line, recordings
from hypothesis import given
from hypothesis import strategies as st

from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import Layout, lay_out
from agentx_replay.prompts.prompt import Prompt
from agentx_replay.prompts.template import CHATML, CHATML_TOOLS, TemplateCost
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import Vocabulary, builtin_vocabulary
from agentx_replay.traces.model import Session

Record = Callable[..., Session]

WORDS = builtin_vocabulary()
ONE_WORD = Vocabulary(("bird",), "able")
KEYS = LevelKeys("salt", 8, 1)

# Costs in the manner of a template with a long default system prompt.
LONG = TemplateCost(with_system=5, without_system=31, system=7, user=9, assistant=8)
# One that says several blocks of its own before everything.
LENGTHY = TemplateCost(with_system=150, without_system=211, system=7, user=9, assistant=8)
# ChatML with the id of a call in its head and its result's, as ``chatml`` below renders them.
TOOLS = replace(CHATML, tool_messages=True, call=9, result=8)
# One whose first pair costs less than a later one, in the manner of DeepSeek V3's.
ODD_TOOLS = TemplateCost(2, 2, 1, 2, 3, tool_messages=True, call=12, result=12, first_call=-1)


def composer(
    layout: Layout,
    *,
    vocabulary: Vocabulary = WORDS,
    keys: LevelKeys = KEYS,
    lane: int = 0,
    play_number: int = 0,
    tool_messages: bool = False,
) -> PlayComposer:
    return PlayComposer(
        layout,
        chat_wording(vocabulary, tool_messages=tool_messages),
        keys,
        lane=lane,
        play_number=play_number,
    )


def send_all(play: PlayComposer, session: Session, conversation: int = 0) -> list[Prompt]:
    return [play.prompt(conversation, request) for request in session.requests()]


def texts(play: PlayComposer, session: Session, conversation: int = 0) -> list[bytes]:
    return [play.prompt(conversation, request).messages_json() for request in session.requests()]


def chatml(messages_json: bytes) -> list[str]:
    """Return the tokens a server sees: ChatML's, and one for each word."""
    tokens: list[str] = []
    for message in json.loads(messages_json):
        marks = ["<|im_start|>", message["role"], "\n"]
        if calls := message.get("tool_calls"):
            tokens += [*marks, calls[0]["id"], *said(message), "}", "<|im_end|>", "\n"]
        elif message["role"] == "tool":
            tokens += [*marks, message["tool_call_id"], *said(message), "<|im_end|>", "\n"]
        else:
            tokens += [*marks, *said(message), "<|im_end|>", "\n"]
    return [*tokens, "<|im_start|>", "assistant", "\n"]


def said(message: dict[str, Any]) -> list[str]:
    """Return the words of a message, a call's out of its argument."""
    for call in message.get("tool_calls", ()):
        return str(json.loads(call["function"]["arguments"])["command"]).split(" ")
    return str(message["content"]).split(" ")


def counted(messages_json: bytes, cost: TemplateCost) -> int:
    """Return what a template of another cost makes of a conversation."""
    messages = json.loads(messages_json)
    has_system = messages[0]["role"] == "system"
    plain = messages[: 1 + has_system] if cost.tool_messages else messages
    pairs = (len(messages) - len(plain)) // 2
    words = sum(len(said(message)) for message in messages) - len(plain) - 2 * 2 * pairs
    tools = pairs * (cost.call + cost.result) + (cost.first_call if pairs else 0)
    around = sum(cost.message(message["role"]) for message in plain)
    return cost.conversation(has_system=has_system) + words + around + tools


def blocks_in_common(one: Sequence[str], other: Sequence[str]) -> int:
    alike = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            break
        alike += 1
    return alike // 64


@pytest.mark.parametrize("cost", [CHATML, LONG, LENGTHY, TOOLS, ODD_TOOLS])
@given(lines=recordings(), system_tokens=SYSTEM_TOKENS)
def test_the_server_counts_the_recorded_input(
    record: Record, cost: TemplateCost, lines: list[Line], system_tokens: int
) -> None:
    session = record(lines, system_tokens=system_tokens)
    play = composer(lay_out(session, cost), tool_messages=cost.tool_messages)
    for request, prompt in zip(session.requests(), send_all(play, session), strict=True):
        assert counted(prompt.messages_json(), cost) == prompt.tokens
        # A bare user message is the least that can be sent.
        least = cost.without_system + cost.user
        assert prompt.tokens in (request.input_tokens, max(request.input_tokens, least))
        assert len(prompt.block_ids) == prompt.tokens // 64


@given(lines=recordings(), system_tokens=SYSTEM_TOKENS)
def test_roles_alternate_and_end_with_the_user(
    record: Record, lines: list[Line], system_tokens: int
) -> None:
    session = record(lines, system_tokens=system_tokens)
    for text in texts(composer(lay_out(session, CHATML)), session):
        roles = [message["role"] for message in json.loads(text)]
        spoken = roles[1:] if roles[0] == "system" else roles
        assert spoken[0] == spoken[-1] == "user"
        assert set(spoken) <= {"user", "assistant"}
        assert all(before != after for before, after in pairwise(spoken))


@pytest.mark.parametrize("cost", [CHATML, TOOLS])
@given(lines=recordings(), system_tokens=SYSTEM_TOKENS)
def test_a_servers_cache_hits_what_the_recording_shares(
    record: Record, cost: TemplateCost, lines: list[Line], system_tokens: int
) -> None:
    session = record(lines, system_tokens=system_tokens)
    layout = lay_out(session, cost)
    sent: list[list[str]] = []
    play = composer(layout, tool_messages=cost.tool_messages)
    for request in session.requests():
        tokens = chatml(play.prompt(0, request).messages_json())
        hits = max((blocks_in_common(tokens, earlier) for earlier in sent), default=0)
        assert hits <= request.known_blocks
        if request.input_tokens >= 64 * (request.known_blocks + 1):
            assert hits == request.known_blocks
        sent.append(tokens)


@given(lines=recordings(), system_tokens=SYSTEM_TOKENS)
def test_two_prompts_hold_the_same_block_if_and_only_if_the_recording_says_so(
    record: Record, lines: list[Line], system_tokens: int
) -> None:
    session = record(lines, system_tokens=system_tokens)
    prompts = send_all(composer(lay_out(session, CHATML)), session)
    for one, line in zip(prompts, lines, strict=True):
        for other, its in zip(prompts, lines, strict=True):
            if line == its:
                continue
            recorded = blocks_alike(line[2], its[2])
            length = min(len(one.block_ids), len(other.block_ids))
            alike = one.block_ids[:length] == other.block_ids[:length]
            assert alike.tolist() == [place < recorded for place in range(length)]


@pytest.mark.parametrize("partial", [0, 1, 2, 3, 8, 9, 15, 63])
def test_growth_shares_every_recorded_block_as_sent(record: Record, partial: int) -> None:
    session = record([(192 + partial, 70, "ABC"), (384 + partial, 1, "ABCDEF")])
    first, second = map(chatml, texts(composer(lay_out(session, CHATML)), session))
    assert blocks_in_common(first, second) == 3


def blocks_alike(one: str, other: str) -> int:
    return next(
        (n for n, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its),
        min(len(one), len(other)),
    )


@pytest.mark.parametrize("cost", [CHATML, TOOLS])
@given(lines=recordings(), order=st.randoms(use_true_random=False))
def test_text_does_not_depend_on_what_was_rendered_before(
    record: Record, cost: TemplateCost, lines: list[Line], order: Random
) -> None:
    session = record(lines, system_tokens=130)
    layout, tools = lay_out(session, cost), cost.tool_messages
    alone = [
        composer(layout, tool_messages=tools).prompt(0, request).messages_json()
        for request in session.requests()
    ]
    assert texts(composer(layout, tool_messages=tools), session) == alone
    prompts = list(enumerate(send_all(composer(layout, tool_messages=tools), session)))
    order.shuffle(prompts)
    assert all(prompt.messages_json() == alone[place] for place, prompt in prompts)
    # Composed ahead, and asked for twice, it is the same object.
    ahead = composer(layout, tool_messages=tools)
    for request, text in zip(session.requests(), alone, strict=True):
        size = ahead.compose(0, request)
        prompt = ahead.prompt(0, request)
        assert prompt.messages_json() is prompt.messages_json()
        assert (prompt.messages_json(), size) == (text, len(text))


def test_messages_are_json_with_nothing_to_escape(record: Record) -> None:
    # 11 tokens: 3 and 6 of template, the opening word among them, and 2 words.
    session = record([(11, 1, "")])
    [text] = texts(composer(lay_out(session, CHATML), vocabulary=ONE_WORD), session)
    assert text == b'[{"role":"user","content":"able bird bird"}]'


def test_messages_follow_one_another_in_one_array(record: Record) -> None:
    # Blocks of 4, a template that costs 1 a message and nothing else. First prompt, 5 tokens: 4
    # words. Then 14: the answer's 4 + 4 less 1 words, and the user's up to 13.
    cost = TemplateCost(0, 0, 1, 1, 1)
    session = record([(5, 4, "A"), (14, 1, "ABC")], block_size=4)
    first, second = texts(composer(lay_out(session, cost), vocabulary=ONE_WORD), session)
    assert first == b'[{"role":"user","content":"able bird bird bird bird"}]'
    assert second == (
        b'[{"role":"user","content":"able bird bird bird bird"},'
        b'{"role":"assistant","content":"able bird bird bird"},'
        b'{"role":"user","content":"able bird bird bird bird"}]'
    )


def test_the_partial_block_is_not_shared_between_conversations(record: Record) -> None:
    session = record([(220, 9, "ABC")])
    play = composer(lay_out(session, CHATML))
    [one], [other] = texts(play, session, conversation=0), texts(play, session, conversation=1)
    # `[{"role":"user","content":"able` is 31 bytes; 192 words of 5 are shared, 19 are not.
    assert one[: 31 + 960] == other[: 31 + 960]
    assert one[31 + 960 :] != other[31 + 960 :]


def test_the_same_salt_and_the_same_prompt_again_give_the_same_bytes(record: Record) -> None:
    session = record([(220, 9, "ABC"), (500, 9, "ABCDEFG"), (500, 9, "ABCDEFG")])
    layout = lay_out(session, CHATML)
    sent = texts(composer(layout), session)
    assert texts(composer(layout), session) == sent
    assert sent[1] == sent[2]


@pytest.mark.parametrize(
    "other",
    [
        {"keys": LevelKeys("another", 8, 1)},
        {"keys": LevelKeys("salt", 16, 1)},
        {"keys": LevelKeys("salt", 8, 2)},
        {"keys": LevelKeys("salt", 8, 1, start=2)},
        {"lane": 1},
        {"play_number": 1},
    ],
)
def test_two_plays_share_no_block_without_a_system_prefix(
    record: Record, other: dict[str, object]
) -> None:
    session = record([(220, 9, "ABC")])
    layout = lay_out(session, CHATML)
    [mine] = send_all(composer(layout), session)
    [its] = send_all(composer(layout, **other), session)  # type: ignore[arg-type]
    assert not np.isin(mine.block_ids, its.block_ids).any()
    common = blocks_in_common(chatml(mine.messages_json()), chatml(its.messages_json()))
    assert common == 0


def test_two_plays_of_a_session_share_its_system_prefix_and_no_more(record: Record) -> None:
    session = record([(500, 9, "ABCDEFG")], system_tokens=130)
    layout = lay_out(session, CHATML)
    [mine] = send_all(composer(layout), session)
    [its] = send_all(composer(layout, lane=1), session)
    assert (mine.block_ids == its.block_ids).tolist() == [True] * 2 + [False] * 5
    common = blocks_in_common(chatml(mine.messages_json()), chatml(its.messages_json()))
    assert common == 2
    assert (mine.reusable_tokens, its.reusable_tokens) == (0, 0)  # by its own play
    assert (mine.declared_tokens, its.declared_tokens) == (128, 128)


@pytest.mark.parametrize(("shared_prefix", "shared"), [("session", 0), ("corpus", 2)])
def test_sessions_share_a_system_prefix_of_equal_lengths_where_the_scenario_says(
    record: Record, shared_prefix: str, shared: int
) -> None:
    keys = LevelKeys("salt", 8, 1, shared_prefix)  # type: ignore[arg-type]
    prompts = []
    for name, lines in (("s", [(500, 9, "ABCDEFG")]), ("t", [(64, 1, "Z"), (500, 9, "TUVWXYZ")])):
        session = record(lines, system_tokens=130, session_id=name)
        play = composer(lay_out(session, CHATML), keys=keys)
        prompts.append(send_all(play, session)[-1])
    one, other = (chatml(prompt.messages_json()) for prompt in prompts)
    assert blocks_in_common(one, other) == shared
    first, second = (int(prompt.block_ids[0]) for prompt in prompts)
    assert (first == second) == (shared > 0)


def test_differing_system_prefixes_of_one_session_stay_different(record: Record) -> None:
    session = record([(300, 9, "ABCD"), (300, 9, "WXYZ")], system_tokens=130)
    keys = LevelKeys("salt", 8, 1, "corpus")
    one, other = send_all(composer(lay_out(session, CHATML), keys=keys), session)
    assert not np.isin(one.block_ids, other.block_ids).any()
    assert other.reusable_tokens == 0


def test_reusable_tokens_are_the_leading_blocks_sent_before_in_this_play(record: Record) -> None:
    session = record(
        [
            (200, 9, "ABC"),  # nothing sent yet
            (404, 9, "ABCDEF"),  # ABC
            (300, 9, "ABXY"),  # AB
            (404, 9, "ABCDEG"),  # ABCDE
            (404, 9, "ABCDEG"),  # all 6 whole blocks
        ]
    )
    prompts = send_all(composer(lay_out(session, CHATML)), session)
    assert [prompt.reusable_tokens for prompt in prompts] == [0, 192, 128, 320, 384]


def test_a_resumed_play_has_sent_only_what_it_sent(record: Record) -> None:
    session = record([(200, 9, "ABC"), (404, 9, "ABCDEF"), (500, 9, "ABCDEFG")])
    play = composer(lay_out(session, CHATML))
    assert play.prompt(0, session.requests()[1]).reusable_tokens == 0
    assert play.prompt(1, session.requests()[2]).reusable_tokens == 384


def test_a_partial_block_with_an_id_counts_as_sent_only_when_it_is_whole(record: Record) -> None:
    # D is partial in the first prompt (200 = 3 * 64 + 8) and whole in the second and third.
    session = record([(200, 9, "ABCD"), (404, 9, "ABCDEFG"), (450, 9, "ABCDEFH")])
    prompts = send_all(composer(lay_out(session, CHATML)), session)
    assert [prompt.reusable_tokens for prompt in prompts] == [0, 192, 384]
    assert [len(prompt.block_ids) for prompt in prompts] == [3, 6, 7]


def test_a_conversation_that_was_forgotten_holds_no_text_and_can_still_be_rendered(
    record: Record,
) -> None:
    session = record([(220, 9, "ABC"), (500, 9, "ABCDEFG")])
    play = composer(lay_out(session, CHATML))
    first = play.prompt(0, session.requests()[0])
    before = first.messages_json()
    play.forget(0)
    play.forget(0)
    assert first.messages_json() == before
    assert first.messages_json() is not first.messages_json()


def test_a_call_keeps_its_id_its_words_and_its_result_in_every_later_prompt(
    record: Record,
) -> None:
    """A prompt grows twice, and is then cut back inside its first answer."""
    lines = [(200, 64, "abc"), (390, 64, "abcdef"), (580, 64, "abcdefghi"), (390, 64, "abcdXY")]
    session = record(lines, tool_tokens=64)
    play = composer(lay_out(session, CHATML_TOOLS), tool_messages=True)
    first, second, third, cut = map(json.loads, texts(play, session))
    assert [message["role"] for message in third] == ["system", "user", *["assistant", "tool"] * 2]
    assert first == second[:2]
    assert second[:3] == third[:3]
    # The last message goes on: its words, but for the one that closes it, are the first of it.
    assert said(third[3])[: len(said(second[3])) - 1] == said(second[3])[:-1]
    assert [call["tool_calls"][0]["id"] for call in third[2::2]] == ["call00001", "call00002"]
    assert [result["tool_call_id"] for result in third[3::2]] == ["call00001", "call00002"]
    # Cut inside the answer: what is kept of it begins as before, and is closed again.
    kept = said(cut[2])
    assert kept[:-1] == said(third[2])[: len(kept) - 1]
    assert kept[-1] == "able"
