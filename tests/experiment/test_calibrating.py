"""Calibrating against servers of every kind: what is found, what it costs, what is said."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path

import pytest
import uvloop
from counting_server import (
    NOT_FOUND,
    OVERFLOWN,
    REFUSED,
    Body,
    CountingServer,
    Reply,
    Replying,
    chatml_count,
    completion,
    counting_server,
    words_in,
)
from refusals import refuses

from agentx_replay.endpoint.asking import Limits
from agentx_replay.endpoint.counting import Enough
from agentx_replay.endpoint.settings import Api, EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.errors import UsageError
from agentx_replay.experiment.calibrating import (
    Candidates,
    builtin_candidates,
    calibrate,
    read_calibration,
)
from agentx_replay.experiment.prompting import wording_of
from agentx_replay.prompts.calibration import Calibration, as_document
from agentx_replay.prompts.template import TemplateCost

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
# Forty probes, the most there are, however busy the machine.
ALL_PROBES = Enough(within_s=0.0, at_least=40)
CHATML = TemplateCost(3, 3, 6, 6, 6, takes_system=True, assumed=False)


def calibrated(
    reply: Replying,
    *,
    context: int | None = 8_192,
    api: Api = "chat",
    earlier: Calibration | None = None,
    candidates: Candidates | None = None,
    tool_messages: bool = False,
) -> tuple[Calibration, CountingServer]:
    async def run() -> tuple[Calibration, CountingServer]:
        async with counting_server(reply) as server:
            settings = EndpointSettings(parse_base_url(server.url), "tiny", api=api)
            found = await calibrate(
                settings,
                context_tokens=context,
                earlier=earlier,
                candidates=candidates,
                proof=ALL_PROBES,
                tool_messages=tool_messages,
            )
            return found, server

    return uvloop.run(run())


def counting(tokens: Callable[[Body], int | None], at: str = CHAT) -> Replying:
    """A server of one API that counts a prompt so, and has no other path."""
    return lambda path, body: completion(body, tokens(body)) if path == at else NOT_FOUND


chatml = counting(chatml_count)


def codes(found: Calibration) -> list[str]:
    return [warning.code for warning in found.warnings]


# --- servers that can be calibrated against -----------------------------------------------------


def test_words_template_and_proof_by_usage_alone_in_ninety_requests() -> None:
    found, server = calibrated(chatml)
    assert found.exact
    assert (found.cost, len(found.words), found.counted_by) == (CHATML, 1_234, "usage")
    assert found.verification.probes == 40
    assert found.warnings == ()
    assert len(server.asked) <= 90


def test_a_server_that_needs_two_requests_a_count_gets_fewer_probes() -> None:
    # As llama.cpp: /tokenize takes text alone, and /apply-template makes it of a conversation.
    def in_two(path: str, body: Body) -> Reply:
        if path == "/apply-template":
            said = " ".join(message["content"] for message in body["messages"])
            return Reply(json={"prompt": said + " m" * (5 * len(body["messages"]) + 3)})
        if path == "/tokenize" and "content" in body:
            return Reply(json={"tokens": [7] * words_in(body)})
        return chatml(path, body)

    found, server = calibrated(in_two)
    assert found.exact
    assert (found.cost, found.counted_by) == (CHATML, "/apply-template and /tokenize")
    assert found.verification.probes >= 16
    assert len(server.asked) <= 90


def test_a_context_of_800_tokens_is_enough() -> None:
    def small(path: str, body: Body) -> Reply:
        return OVERFLOWN if chatml_count(body) > 800 else chatml(path, body)

    for context in (800, None):  # told by the server, or found out by asking
        found, _ = calibrated(small, context=context)
        assert found.exact
        assert (found.cost, len(found.words)) == (CHATML, 1_234)


def test_a_calibration_of_an_earlier_run_is_proven_not_believed(tmp_path: Path) -> None:
    found, first = calibrated(chatml)
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(as_document(found)))
    again, second = calibrated(chatml, earlier=read_calibration(file))
    assert (again.words, again.cost, again.exact) == (found.words, CHATML, True)
    assert len(second.asked) < len(first.asked)

    longer = counting(lambda body: chatml_count(body) + len(body["messages"]))
    missed, _ = calibrated(longer, earlier=read_calibration(file))
    assert not missed.exact
    assert "NOT exact" in missed.lines()[0]


def test_words_of_a_tokenizers_file_are_checked_by_the_server() -> None:
    # The server's tokenizer makes two tokens of one of the file's words.
    words = builtin_candidates().words[:500]
    of_file = Candidates(words, "able", "words of tokenizer.json")

    def other(body: Body) -> int:
        said = " ".join(message["content"] for message in body["messages"])
        return chatml_count(body) + said.split().count(words[100])

    found, server = calibrated(counting(other), candidates=of_file)
    assert found.exact
    assert len(server.asked) <= 90
    assert words[100] not in found.words
    assert codes(found) == ["words-left-out"]
    assert "1 of 500 words of tokenizer.json" in found.warnings[0].text


@pytest.mark.parametrize(
    ("api", "usage", "without_system"),
    [
        ("chat", chatml, 3),  # /tokenize forgets what the template adds to a conversation
        # Usage counts a begin-of-text that /tokenize does not add.
        ("completions", counting(lambda body: 1 + words_in(body), COMPLETIONS), 2),
    ],
)
def test_tokenize_that_says_other_than_usage_is_not_believed(
    api: Api, usage: Replying, without_system: int
) -> None:
    def forgetful(path: str, body: Body) -> Reply:
        return Reply(json={"count": words_in(body)}) if path == "/tokenize" else usage(path, body)

    found, server = calibrated(forgetful, api=api)
    assert (found.cost.without_system, found.counted_by, found.ids) == (without_system, "usage", ())
    assert found.exact
    assert len(server.asked) <= 90


def test_completions_go_by_token_ids_where_the_server_tells_and_takes_them() -> None:
    ids: dict[str, int] = {}
    fresh = count(100)

    def with_ids(path: str, body: Body) -> Reply:
        if path == "/tokenize":
            text = body.get("prompt", "")
            return Reply(json={"tokens": [ids.setdefault(w, next(fresh)) for w in text.split()]})
        return counting(words_in, COMPLETIONS)(path, body)

    found, server = calibrated(with_ids, api="completions")
    assert len(server.asked) <= 90
    assert found.exact
    assert found.ids == tuple(ids[word] for word in (found.opening, *found.words))
    assert found.cost.without_system == 1
    assert wording_of(found, chat=False).start == b"[%d" % ids["able"]


def test_completions_go_by_text_where_the_server_takes_no_ids() -> None:
    def text_only(path: str, body: Body) -> Reply:
        if path != COMPLETIONS or isinstance(body["prompt"], list):
            return REFUSED
        return completion(body, 1 + words_in(body))  # begin-of-text

    found, server = calibrated(text_only, api="completions")
    assert len(server.asked) <= 90
    assert found.exact
    assert (found.ids, found.cost.without_system) == ((), 2)
    assert wording_of(found, chat=False).start == b'"able'


# --- with tool messages -------------------------------------------------------------------------


def call_tokens(body: Body) -> int:
    """Count a call by the words of its argument and 20 more, a result by its own and 9 more."""
    tokens = 3
    for message in body["messages"]:
        calls = message.get("tool_calls")
        said = json.loads(calls[0]["function"]["arguments"]) if calls else message
        around = 20 if calls else 9 if message["role"] == "tool" else 5
        tokens += around + len(said["command" if calls else "content"].split())
    return tokens


calling = counting(call_tokens)

# 31 tokens a pair beside its words: 20 + 9, and the two opening words; in halves 17 and 16, as
# there are two closing words as well.
TOOLS = replace(CHATML, tool_messages=True, call=17, result=16)


def test_tool_messages_are_calibrated_and_proven_by_usage_in_ninety_requests() -> None:
    found, server = calibrated(calling, tool_messages=True)
    assert (found.exact, found.verification.probes, found.cost) == (True, 40, TOOLS)
    assert len(server.asked) <= 90
    assert not any("tools" in body for _, body in server.asked)  # vLLM would refuse a definition


def test_tokenize_that_says_other_than_usage_of_tool_messages_is_not_believed() -> None:
    # Here /tokenize forgets what a call adds.
    def forgetful(path: str, body: Body) -> Reply:
        if path != "/tokenize" or "messages" not in body:
            return calling(path, body)
        plain = [{"role": "user", "content": "able"} for _ in body["messages"]]
        return Reply(json={"count": chatml_count({"messages": plain})})

    found, _ = calibrated(forgetful, tool_messages=True)
    assert (found.exact, found.cost, found.counted_by) == (True, TOOLS, "usage")


def test_a_server_that_refuses_tool_messages_is_told_also_with_a_calibration_given() -> None:
    def plain_only(path: str, body: Body) -> Reply:
        roles = {message["role"] for message in body.get("messages", ())}
        return REFUSED if "tool" in roles else calling(path, body)

    earlier, _ = calibrated(calling, tool_messages=True)
    for given in (None, earlier):
        with refuses("server-without-tools") as raised:
            calibrated(plain_only, tool_messages=True, earlier=given)
        assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("made_with", "told", "way_out"),
    [
        (True, "for tool messages, not plain", "leave it out, or add --tool-messages"),
        (False, "for plain messages, not tool", "leave it out, or leave out --tool-messages"),
    ],
)
def test_a_calibration_of_the_other_kind_of_messages_is_refused(
    made_with: bool, told: str, way_out: str
) -> None:
    found, _ = calibrated(calling, tool_messages=made_with)
    with pytest.raises(UsageError, match=told) as raised:
        calibrated(calling, tool_messages=not made_with, earlier=found)
    assert raised.value.what_to_do == way_out


# --- servers that cannot, and what is said ------------------------------------------------------


def test_a_server_that_reports_no_usage_is_assumed_and_told() -> None:
    found, _ = calibrated(lambda path, body: completion(body, None))
    assert found.cost.assumed
    assert (found.verification.probes, len(found.words)) == (0, 1_234)
    assert codes(found) == ["lengths-not-told"]


def test_usage_only_without_streaming_calibrates_and_is_told() -> None:
    whole_only = counting(lambda body: None if body["stream"] else chatml_count(body))
    found, _ = calibrated(whole_only)
    assert found.exact
    assert found.counted_by == "usage, not streamed"
    assert codes(found) == ["usage-not-streamed"]


def test_a_prompt_whose_length_changes_from_request_to_request_is_not_called_exact() -> None:
    # As a template that tells the time: while words are searched, every other one of the long
    # prompts is a token longer; later none is.
    long_ones = count()

    def changing(body: Body) -> int:
        more = words_in(body) > 30 and (number := next(long_ones)) < 66 and number % 2 == 0
        return chatml_count(body) + int(more)

    found, _ = calibrated(counting(changing))
    assert (found.cost, found.exact) == (CHATML, False)
    assert found.verification.exact == found.verification.probes - 1
    assert "NOT exact" in found.lines()[0]
    assert [code for code in codes(found) if code != "words-left-out"] == ["lengths-change"]


def test_a_server_that_counts_a_cached_prompt_otherwise_is_told() -> None:
    seen: set[str] = set()

    def uncached_only(body: Body) -> int:
        said = str(body["messages"])
        counted = chatml_count(body) if said not in seen else 6
        seen.add(said)
        return counted

    found, _ = calibrated(counting(uncached_only))
    # The prompt that was counted twice is two more probes, of which the second is 303 off.
    assert found.verification.probes == 42
    assert (found.verification.exact, found.verification.largest_error_tokens) == (41, -303)
    assert not found.exact
    # 300 words, the opening one, and 8 of template.
    assert codes(found) == ["usage-changes"]
    assert re.findall(r"\d+", found.warnings[0].text) == ["309", "6"]


BUSY = Reply(429, {}, headers=("Retry-After: 0",))


def test_a_busy_server_is_waited_for() -> None:
    every_tenth = cycle([False] * 9 + [True])

    def busy_now_and_then(path: str, body: Body) -> Reply:
        return BUSY if next(every_tenth) else chatml(path, body)

    assert calibrated(busy_now_and_then)[0].exact


def test_a_server_that_answers_429_to_all_is_told_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentx_replay.endpoint.asking.LIMITS", Limits(busy_s=0.1))

    with refuses("server-busy", "HTTP 429", "0.1 s") as raised:
        calibrated(lambda path, body: BUSY)
    assert raised.value.exit_code == 3


def test_a_template_that_says_the_date_is_told_with_its_error() -> None:
    # The date has nine, ten or twelve tokens, by the day.
    lengths = cycle([9, 9, 10, 9, 12, 9])

    found, _ = calibrated(counting(lambda body: chatml_count(body) + next(lengths)))
    assert not found.exact
    assert 0 < abs(found.verification.largest_error_tokens) <= 6
    assert found.verification.exact > 0


def test_a_tokenizer_without_such_words_is_told_with_the_tokens_a_word() -> None:
    def by_bytes(body: Body) -> int:
        return 8 + sum(len(message["content"]) for message in body["messages"])

    found, server = calibrated(counting(by_bytes))
    assert not found.exact
    # Sixty went into words; sixteen are left to the proof, and that is the least.
    assert len(server.asked) <= 100
    assert found.verification.probes == 16
    assert codes(found)[-1] == "words-not-one-token"
    assert "5.00 tokens" in found.warnings[-1].text


@pytest.mark.parametrize(
    "refused",
    [
        lambda body: words_in(body) > 4,
        lambda body: words_in(body) > 12,
        lambda body: len(body.get("messages", ())) > 1,
    ],
    ids=["all but four words", "all but twelve words", "conversations"],
)
def test_a_server_that_refuses_prompts_of_a_calibration_is_assumed(
    refused: Callable[[Body], bool],
) -> None:
    found, _ = calibrated(lambda path, body: REFUSED if refused(body) else chatml(path, body))
    assert found.cost.assumed
    assert codes(found) == ["calibration-refused"]


def test_a_calibration_of_another_api_is_refused() -> None:
    found, _ = calibrated(chatml)
    with refuses("calibration-of-other-api"):
        calibrated(chatml, api="completions", earlier=found)


@pytest.mark.parametrize("text", [None, "", "{", "[]"])
def test_a_file_that_is_no_calibration_is_named(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "calibration.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=r"calibration\.json"):
        read_calibration(file)
