"""How long a server says that a prompt is: by /tokenize as each server offers it, or by usage."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import orjson
import pytest
import uvloop
from counting_server import (
    NOT_FOUND,
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

from agentx_replay.endpoint.asking import Limits, wait_s
from agentx_replay.endpoint.counting import Counter, Enough, UncountedError, Way, Ways
from agentx_replay.endpoint.settings import Api, EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.prompts.probes import Conversation, Ids, Text

_T = TypeVar("_T")
TEXT = Text("able acid army", 2)
TALK = Conversation((("user", "able acid"), ("assistant", "able"), ("user", "able army")), 2)
# 5 words, 5 tokens around each of three messages, 3 to answer.
TALK_TOKENS = 23


def with_counter(
    reply: Replying,
    use: Callable[[Counter], Awaitable[_T]],
    api: Api = "chat",
    limits: Limits | None = None,
    **more: object,
) -> tuple[_T, CountingServer]:
    async def run() -> tuple[_T, CountingServer]:
        async with counting_server(reply) as server:
            settings = EndpointSettings(parse_base_url(server.url), "tiny", api=api, **more)  # type: ignore[arg-type]
            counter = Counter(settings, limits)
            try:
                return await use(counter), server
            finally:
                await counter.close()

    return uvloop.run(run())


def found_ways(reply: Replying, api: Api = "chat") -> Ways:
    return with_counter(reply, lambda counter: counter.ways(TALK, TEXT), api)[0]


def by_usage(path: str, body: Body) -> Reply:
    return completion(body, chatml_count(body)) if path == "/v1/chat/completions" else NOT_FOUND


def vllm(path: str, body: Body) -> Reply:
    """``/tokenize`` takes messages or a prompt, with the count beside the ids."""
    if path != "/tokenize":
        return by_usage(path, body)
    count = chatml_count(body) if "messages" in body else words_in(body)
    return Reply(json={"count": count, "max_model_len": 8192, "tokens": [7] * count})


def sglang(path: str, body: Body) -> Reply:
    """``/tokenize`` takes a prompt only."""
    if path != "/tokenize":
        return by_usage(path, body)
    if "prompt" not in body:
        return Reply(422, {"detail": "prompt is missing"})
    return Reply(json={"tokens": [7] * words_in(body), "count": words_in(body)})


def llama_cpp(path: str, body: Body) -> Reply:
    """``/tokenize`` takes ``content``, and of anything else makes no tokens at all."""
    if path == "/apply-template":
        said = " ".join(message["content"] for message in body["messages"])
        marks = " m" * (5 * len(body["messages"]) + 3)
        return Reply(json={"prompt": said + marks})
    if path == "/tokenize":
        return Reply(json={"tokens": list(range(len(body.get("content", "").split())))})
    return by_usage(path, body)


def no_usage(path: str, body: Body) -> Reply:
    return vllm(path, body) if path == "/tokenize" else completion(body, None)


def whole_only(path: str, body: Body) -> Reply:
    """Tells no usage in streams."""
    if body.get("stream") is None:
        return NOT_FOUND
    return completion(body, None if body["stream"] else chatml_count(body))


def gateway(path: str, body: Body) -> Reply:
    """Answers 401 to every path that it does not know."""
    return Reply(401, {}) if path == "/tokenize" else by_usage(path, body)


@pytest.mark.parametrize(
    ("reply", "ways"),
    [
        (vllm, Ways(Way.TOKENIZE, Way.TOKENIZE, Way.USAGE)),
        (sglang, Ways(Way.USAGE, Way.TOKENIZE, Way.USAGE)),
        (llama_cpp, Ways(Way.TEMPLATE_AND_TOKENIZE, Way.TOKENIZE, Way.USAGE)),
        (by_usage, Ways(Way.USAGE, Way.USAGE, Way.USAGE)),
        (whole_only, Ways(Way.WHOLE_USAGE, Way.WHOLE_USAGE, Way.WHOLE_USAGE)),
        (no_usage, Ways(Way.TOKENIZE, Way.TOKENIZE, None)),
        (gateway, Ways(Way.USAGE, Way.USAGE, Way.USAGE)),
    ],
)
def test_a_server_counts_in_the_first_way_that_it_offers(reply: Replying, ways: Ways) -> None:
    assert found_ways(reply) == ways


def test_a_server_that_tells_nothing_is_told() -> None:
    def silent(path: str, body: Body) -> Reply:
        return completion(body, None) if "completions" in path else NOT_FOUND

    with pytest.raises(UncountedError):
        found_ways(silent)


@pytest.mark.parametrize("reply", [vllm, sglang, llama_cpp, by_usage])
def test_all_ways_come_to_the_same_count(reply: Replying) -> None:
    async def count(counter: Counter) -> list[int | None]:
        ways = await counter.ways(TALK, TEXT)
        return await counter.counts([TALK, TALK], ways)

    assert with_counter(reply, count)[0] == [TALK_TOKENS, TALK_TOKENS]


def test_a_refused_prompt_has_no_count() -> None:
    async def count(counter: Counter) -> list[int | None]:
        return [await counter.count(TALK, way) for way in Way]

    assert with_counter(lambda path, body: REFUSED, count)[0] == [None] * 4


def test_usage_is_asked_for_with_one_token_and_the_users_own_fields() -> None:
    _, server = with_counter(
        by_usage,
        lambda counter: counter.count(TALK, Way.USAGE),
        extra_body={"temperature": 0},
        max_tokens_field="max_tokens",
    )
    ((path, body),) = server.asked
    assert path == "/v1/chat/completions"
    assert body["messages"][1] == {"role": "assistant", "content": "able"}
    assert (body["max_tokens"], body["temperature"], body["model"]) == (1, 0, "tiny")
    assert body["stream_options"] == {"include_usage": True}


def test_completions_are_asked_with_text_or_ids() -> None:
    def completions(path: str, body: Body) -> Reply:
        assert path == "/v1/completions"
        return completion(body, words_in(body))

    async def count(counter: Counter) -> list[int | None]:
        ways = Ways(Way.USAGE, Way.USAGE, Way.USAGE)
        return await counter.counts([TEXT, Ids((5, 6), 1)], ways)

    counts, server = with_counter(completions, count, "completions")
    assert counts == [3, 2]
    assert sorted(str(body["prompt"]) for _, body in server.asked) == ["[5, 6]", "able acid army"]


def test_the_ids_of_a_text_are_told_without_special_ones() -> None:
    ids, server = with_counter(llama_cpp, lambda counter: counter.token_ids(TEXT))
    assert ids == [0, 1, 2]
    assert server.asked[0][1]["add_special"] is server.asked[0][1]["add_special_tokens"] is False


@pytest.mark.parametrize("answer", [{"tokens": []}, {"tokens": ["a"]}, {"count": 3}, [], None])
def test_ids_that_are_none_are_not_taken(answer: object) -> None:
    told = with_counter(lambda path, body: Reply(json=answer), lambda c: c.token_ids(TEXT))
    assert told[0] is None


@pytest.mark.parametrize(
    "answer", [{"tokens": []}, {"count": 0}, {"count": True}, {"usage": {"prompt_tokens": "9"}}]
)
def test_nothing_is_no_count(answer: object) -> None:
    async def count(counter: Counter) -> list[int | None]:
        return [await counter.count(TEXT, way) for way in (Way.TOKENIZE, Way.WHOLE_USAGE)]

    assert with_counter(lambda path, body: Reply(json=answer), count)[0] == [None, None]


# --- servers that are busy, or gone -------------------------------------------------------------


def busy(path: str, body: Body) -> Reply:
    return Reply(429, {"error": "slow down"}, headers=("Retry-After: 0",))


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    replies = [busy, busy]

    def at_last(path: str, body: Body) -> Reply:
        return (replies.pop() if replies else by_usage)(path, body)

    count, server = with_counter(at_last, lambda counter: counter.count(TALK, Way.USAGE))
    assert count == TALK_TOKENS
    assert len(server.asked) == 3


def test_a_server_that_stays_busy_is_given_up_with_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    short = Limits(busy_s=0.2)
    with refuses("server-busy", "HTTP 429: slow down", "0.2 s") as raised:
        with_counter(busy, lambda counter: counter.count(TALK, Way.USAGE), limits=short)
    assert raised.value.exit_code == 3
    (waiting,) = caplog.messages
    assert "HTTP 429: slow down" in waiting


def test_one_connection_that_gives_up_ends_them_all() -> None:
    ways = Ways(Way.USAGE, Way.USAGE, Way.USAGE)
    with refuses("server-busy"):
        with_counter(busy, lambda c: c.counts([TALK] * 20, ways), limits=Limits(busy_s=0.1))


def test_no_probe_is_begun_when_there_is_enough() -> None:
    ways = Ways(Way.USAGE, Way.USAGE, Way.USAGE)
    at_once = Enough(within_s=-1.0, at_least=3)
    counts, server = with_counter(by_usage, lambda c: c.counts([TALK] * 20, ways, at_once))
    assert counts == [TALK_TOKENS] * 3 + [None] * 17
    assert len(server.asked) == 3


@pytest.mark.parametrize(("status", "code"), [(0, "server-not-http"), (401, "api-key-missing")])
def test_a_server_that_ceases_to_answer_is_told(status: int, code: str) -> None:
    with refuses(code) as raised:
        with_counter(lambda path, body: Reply(status, {}), lambda c: c.count(TALK, Way.USAGE))
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (b"2", 2.0),
        (b"600", 10.0),
        (b"-3", 0.05),
        (b"nan", 0.05),
        (b"Mon, 30 Nov", 1.0),
        (None, 1.0),
    ],
)
def test_a_wait_is_bounded(asked: bytes | None, seconds: float) -> None:
    assert wait_s(asked) == seconds


def test_an_answer_that_is_no_json_is_no_count() -> None:
    def page(path: str, body: Body) -> Reply:
        return Reply(json=orjson.Fragment(b"<html>"))

    assert with_counter(page, lambda counter: counter.count(TEXT, Way.TOKENIZE))[0] is None


def test_completions_have_one_way_for_all() -> None:
    def completions(path: str, body: Body) -> Reply:
        return NOT_FOUND if path == "/tokenize" else completion(body, words_in(body))

    assert found_ways(completions, "completions") == Ways(Way.USAGE, Way.USAGE, Way.USAGE)
