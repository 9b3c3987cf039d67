"""Several servers measured as one: what they must have in common, and what is said of the rest."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import uvloop
from counting_server import NOT_FOUND, Body, Reply, Replying, chatml_count, completion
from counting_server import counting_server as serving
from refusals import refuses

from agentx_replay.endpoint.readiness import ServerFacts
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.errors import UsageError
from agentx_replay.experiment.replicas import (
    ask_replicas,
    check_lengths,
    replica_pages,
    replica_warnings,
    replicas_facts,
)
from agentx_replay.prompts.calibration import Calibration, Verification, assumed
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.prompts.vocabulary import common_words, opening_words

FACTS = ServerFacts(
    model="m",
    max_model_len=8192,
    served_models=("m",),
    server="uvicorn",
    max_tokens_field="max_completion_tokens",
    ignore_eos=True,
    usage_reported=True,
    cached_tokens_reported=True,
)
CALIBRATION = Calibration(
    words=tuple(common_words()),
    opening=opening_words()[0],
    cost=TemplateCost(3, 3, 6, 6, 6, takes_system=True, assumed=False),
    verification=Verification(40, 40, 0, 4000, 60),
    source="built-in words",
    counted_by="usage",
    model="m",
    api="chat",
)


def settings(url: str, model: str = "") -> EndpointSettings:
    return EndpointSettings(parse_base_url(url), model)


# --- one model ----------------------------------------------------------------------------------


def serving_models(*models: str) -> Replying:
    """A server that lists models, and answers seven tokens, the larger of two limits."""

    def reply(path: str, body: Body) -> Reply:
        if path == "/v1/models":
            return Reply(json={"data": [{"id": model} for model in models]})
        delta = {"index": 0, "delta": {"content": "x"}}
        last = {"index": 0, "delta": {"content": "x"}, "finish_reason": "length"}
        usage = {"prompt_tokens": 9, "completion_tokens": 7}
        events = [{"choices": [delta]}] * 6 + [{"choices": [last], "usage": usage}]
        return Reply(events=events)

    return reply


def asked(*replies: Replying, model: str = "") -> tuple[list[ServerFacts], list[str]]:
    """Ask servers that reply so; return what they told, and where they are."""

    async def main() -> tuple[list[ServerFacts], list[str]]:
        urls: list[str] = []

        async def ask(rest: Sequence[Replying]) -> list[ServerFacts]:
            if not rest:
                return await ask_replicas([settings(url, model) for url in urls])
            async with serving(rest[0]) as server:
                urls.append(server.url)
                return await ask(rest[1:])

        try:
            return await ask(replies), urls
        except UsageError as error:
            for place, url in enumerate(urls):
                error.what = error.what.replace(url, f"URL{place}")
            raise

    return uvloop.run(main())


def test_the_only_model_of_the_first_is_the_model_of_all() -> None:
    facts, _ = asked(serving_models("a"), serving_models("b", "a"))
    assert [told.model for told in facts] == ["a", "a"]


def test_a_server_that_does_not_list_the_model_is_refused_by_name() -> None:
    with refuses("replica-without-model", "URL2", "'a'", "URL0") as refused:
        asked(serving_models("a"), serving_models("a"), serving_models("b"))
    assert refused.value.exit_code == 3


def test_a_server_without_a_list_is_believed_when_it_answers() -> None:
    def unlisted(path: str, body: Body) -> Reply:
        return NOT_FOUND if path == "/v1/models" else serving_models("a")(path, body)

    facts, _ = asked(unlisted, serving_models("a"), model="a")
    assert [told.model for told in facts] == ["a", "a"]


def test_a_server_that_cannot_be_measured_is_named_where_there_are_several() -> None:
    def failing(path: str, body: Body) -> Reply:
        return serving_models("a")(path, body) if path == "/v1/models" else Reply(500, {})

    with refuses("replica-unusable", "URL1"):
        asked(serving_models("a"), failing)
    with refuses("server-fails"):
        asked(failing)


def test_what_the_servers_differ_in_is_said() -> None:
    servers = [settings("http://a"), settings("http://b"), settings("http://c")]
    other = replace(FACTS, max_model_len=4096, cached_tokens_reported=False)
    unknown = replace(FACTS, max_model_len=None)
    limit, cached = replica_warnings(servers, [FACTS, other, unknown])
    assert limit.code == cached.code == "replicas-differ"
    values = "8192 at http://a/v1, 4096 at http://b/v1, not told at http://c/v1"
    assert limit.text.endswith(f" context limit: {values}")
    values = "yes at http://a/v1, no at http://b/v1, yes at http://c/v1"
    assert cached.text.endswith(f" cached tokens: {values}")


def test_what_says_nothing_of_a_server_may_differ_without_a_word() -> None:
    servers = [settings("http://a"), settings("http://b")]
    other = replace(FACTS, served_models=("m", "n"), keep_alive_s=5.0)
    assert replica_warnings(servers, [FACTS, other]) == ()


def test_facts_of_the_system_are_asked_of_each_server() -> None:
    def telling(**info: object) -> Replying:
        return lambda path, _: (
            Reply(json={"page_size": 64, **info}) if path == "/get_server_info" else NOT_FOUND
        )

    async def main() -> None:
        first = telling(tp_size=8, max_total_num_tokens=100)
        second = telling(tp_size=4, max_total_num_tokens=100)
        async with serving(first) as one, serving(second) as two:
            servers = [settings(one.url, "m"), settings(two.url, "m")]
            told, (warning,) = await replicas_facts(servers, ())
            assert told == {
                "model": "m", "served_as": "m", "framework": "sglang", "block_size": 64,
                "kv_cache_pool_tokens": 200,
            }  # fmt: skip
            assert warning.code == "replicas-differ"
            said = f"8 at {servers[0].url}, 4 at {servers[1].url}"
            assert warning.text == f"the servers differ in tp: {said}"

    uvloop.run(main())


# --- one length ---------------------------------------------------------------------------------


def counting(more_tokens: int | None) -> Replying:
    """A server whose ChatML is so many tokens longer than usual; None reports no usage."""

    def reply(path: str, body: Body) -> Reply:
        if path != "/v1/chat/completions":
            return NOT_FOUND
        return completion(body, None if more_tokens is None else chatml_count(body) + more_tokens)

    return reply


def compared(first: Replying, second: Replying, calibration: Calibration = CALIBRATION) -> int:
    """Compare two servers; return how many requests the second was asked."""

    async def main() -> int:
        async with serving(first) as one, serving(second) as two:
            servers = (settings(one.url, "m"), settings(two.url, "m"))
            try:
                await check_lengths(calibration, servers, 8192)
            except UsageError as error:
                error.what = error.what.replace(one.url, "ONE").replace(two.url, "TWO")
                raise
            return len(two.asked)

    return uvloop.run(main())


def test_servers_that_count_alike_are_replicas() -> None:
    assert compared(counting(0), counting(0)) >= 10


def test_a_server_that_counts_another_length_is_refused_in_one_sentence() -> None:
    with refuses("replicas-disagree", "ONE", "TWO") as refused:
        compared(counting(0), counting(2))
    assert refused.value.exit_code == 3


def test_with_tool_messages_it_is_calls_and_results_that_must_count_alike() -> None:
    tools = replace(CALIBRATION.cost, tool_messages=True, call=9, result=8)

    def calling(around_a_call: int) -> Replying:
        def reply(path: str, body: Body) -> Reply:
            messages = body.get("messages", ())
            calls = sum("tool_calls" in message for message in messages)
            return completion(body, 1 + 9 * len(messages) + around_a_call * calls)

        return reply

    assert compared(calling(20), calling(20), replace(CALIBRATION, cost=tools)) >= 10
    with refuses("replicas-disagree"):
        compared(calling(20), calling(21), replace(CALIBRATION, cost=tools))
    assert compared(calling(20), calling(21)) >= 10  # plain messages are alike


def test_a_server_that_tells_no_lengths_beside_one_that_does_is_refused() -> None:
    with refuses("replicas-disagree", "ONE", "not counted for TWO"):
        compared(counting(0), counting(None))


def test_where_lengths_were_assumed_nothing_is_compared() -> None:
    assert compared(counting(None), counting(None), assumed("m", "chat")) == 0


# --- metrics pages ------------------------------------------------------------------------------


@asynccontextmanager
async def engine() -> AsyncIterator[tuple[str, list[str]]]:
    """A server of one page, its metrics; yields its base and the heads it was asked with."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        page = b"vllm:num_requests_running 3\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page))
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", heads
    finally:
        listener.close()


def test_unasked_the_own_page_of_every_server_is_kept() -> None:
    async def main() -> None:
        async with engine() as (one, _), engine() as (two, _):
            pages = await replica_pages((), [settings(one), settings(two)])
            assert [page.name for page in pages] == [f"{one}/metrics", f"{two}/metrics"]

    uvloop.run(main())


def test_servers_of_one_port_have_one_own_page_which_is_kept_once() -> None:
    async def main() -> None:
        async with engine() as (one, _), engine() as (two, _):
            servers = [settings(url) for url in (f"{one}/a/v1", two, f"{one}/b/v1")]
            pages = await replica_pages((), servers)
            assert [page.name for page in pages] == [f"{one}/metrics", f"{two}/metrics"]

    uvloop.run(main())


def test_a_page_that_was_named_gets_the_key_where_it_is_a_servers_own_whichever() -> None:
    async def main() -> None:
        async with engine() as (one, _), engine() as (two, asked), engine() as (other, not_ours):
            servers = [replace(settings(url), api_key="sk-secret") for url in (one, two)]
            pages = await replica_pages((two, other), servers)
            assert [page.name for page in pages] == [f"{two}/metrics", f"{other}/metrics"]
            assert "Authorization: Bearer sk-secret" in asked[0]
            assert "sk-secret" not in not_ours[0]

    uvloop.run(main())
