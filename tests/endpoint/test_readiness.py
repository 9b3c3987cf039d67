"""What is found out about a server before a run, and what is said where no run is possible."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
import uvloop
from refusals import refuses
from scripted_server import (
    DONE,
    HEAD,
    LAST_CHUNK,
    Answer,
    Move,
    answer,
    chunk,
    scripted,
    token,
    usage,
)

from agentx_replay.endpoint.patience import LIMITS, Limits
from agentx_replay.endpoint.readiness import ServedModel, ServerFacts, ask_server, models_in
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.errors import UsageError


def models(*entries: dict[str, Any]) -> Answer:
    return [answer("200 OK", orjson.dumps({"data": entries}), "Server: uvicorn")]


ONE = models({"id": "tiny", "max_model_len": 8192})


def completion(count: int, finish: str = "length", *, cached: bool = True) -> Answer:
    used = usage(12, count)
    if not cached:
        used = (
            b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":%d}}\n\n' % count
        )
    body = token("x") * (count - 1) + token("x", finish) + used + DONE
    return [HEAD, chunk(body), LAST_CHUNK]


def ask(
    *scripts: Sequence[Answer], model: str = "", limits: Limits = LIMITS, **more: Any
) -> tuple[ServerFacts, list[bytes]]:
    """Return what is found with one script a connection, and the requests made."""

    async def run() -> tuple[ServerFacts, list[bytes]]:
        async with scripted(*scripts) as server:
            url = BaseUrl("http", "127.0.0.1", server.port, "/v1")
            settings = EndpointSettings(url, model, **more)
            return await ask_server(settings, limits), server.requests

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def refused(*scripts: Sequence[Answer], model: str = "", **more: Any) -> str:
    with pytest.raises(UsageError) as raised:
        ask(*scripts, model=model, **more)
    assert raised.value.exit_code == 3
    return str(raised.value)


def test_two_requests_tell_all() -> None:
    facts, requests = ask([ONE], [completion(7)])
    assert facts == ServerFacts(
        model="tiny",
        max_model_len=8192,
        served_models=("tiny",),
        server="uvicorn",
        max_tokens_field="max_completion_tokens",
        ignore_eos=True,
        usage_reported=True,
        cached_tokens_reported=True,
    )
    assert facts.warnings() == ()
    assert requests[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    asked = orjson.loads(requests[1].partition(b"\r\n\r\n")[2])
    assert (asked["max_completion_tokens"], asked["max_tokens"]) == (7, 5)
    assert len(requests) == 2


def test_the_field_that_was_honoured_is_told_by_the_count() -> None:
    facts, _ = ask([ONE], [completion(5)])
    assert facts.max_tokens_field == "max_tokens"


@pytest.mark.parametrize(("refusals", "field"), [(1, "max_completion_tokens"), (2, "max_tokens")])
def test_fields_that_are_refused_together_are_tried_alone(refusals: int, field: str) -> None:
    no = [answer("400 Bad Request", b"unsupported parameter")]
    facts, requests = ask([ONE], [*[no] * refusals, completion(7)])
    assert facts.max_tokens_field == field
    alone = orjson.loads(requests[-1].partition(b"\r\n\r\n")[2])
    assert {"max_tokens", "max_completion_tokens"} & alone.keys() == {field}


def test_an_early_end_means_ignore_eos_is_not_honoured() -> None:
    facts, _ = ask([ONE], [completion(3, "stop")])
    assert not facts.ignore_eos
    assert [warning.code for warning in facts.warnings()] == ["server-ends-early"]


def test_no_usage_is_told_and_leaves_the_rest_unknown() -> None:
    facts, _ = ask([ONE], [[HEAD, chunk(token("x", "length") + DONE), LAST_CHUNK]])
    assert not facts.usage_reported
    assert [warning.code for warning in facts.warnings()] == ["server-without-usage"]


def test_no_cached_tokens_is_told() -> None:
    facts, _ = ask([ONE], [completion(7, cached=False)])
    assert [warning.code for warning in facts.warnings()] == ["server-without-cached-tokens"]


HANGING: Answer = [Move.HANG]
DRIPPING: Answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", *[b" "] * 100, Move.HANG]


@pytest.mark.parametrize("never", [HANGING, DRIPPING], ids=["nothing", "byte by byte"])
def test_a_server_that_never_lists_its_models_is_given_up(
    never: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    told = refused([never], limits=Limits(told_after_s=0.0, models_s=0.3, request_s=30.0))
    assert "/v1 has not answered" in told
    assert "0.3 s" in told
    (waiting,) = caplog.messages
    assert waiting.startswith("waiting for http://127.0.0.1:")
    assert waiting.endswith("/v1 to answer")


def test_a_server_that_never_completes_is_given_up_later() -> None:
    told = refused([ONE], [HANGING], limits=Limits(models_s=30.0, request_s=0.3))
    assert "0.3 s" in told


def test_of_a_server_that_answers_no_waiting_is_told(caplog: pytest.LogCaptureFixture) -> None:
    ask([ONE], [completion(7)])
    assert caplog.messages == []


def test_the_variable_that_the_key_is_from_is_named() -> None:
    no = [answer("401 Unauthorized", b"")]
    assert refused([no], api_key_env="MY_KEY").endswith("set MY_KEY")
    assert refused([no], api_key="k" * 8, api_key_env="MY_KEY").endswith("check MY_KEY")


def test_a_model_that_is_named_need_not_be_listed() -> None:
    facts, _ = ask([[answer("404 Not Found", b"")]], [completion(7)], model="mine")
    assert (facts.model, facts.max_model_len, facts.served_models) == ("mine", None, ())


def test_llama_cpp_tells_the_context_of_a_slot() -> None:
    listed = b'{"data":[{"id":"a","meta":{"n_ctx":4096,"n_ctx_train":131072}},{"id":"b","meta":1}]}'
    assert models_in(listed) == (ServedModel("a", 4096), ServedModel("b"))


def test_a_list_of_models_in_other_shapes_is_empty() -> None:
    assert models_in(b"<html>") == models_in(b"[]") == models_in(b'{"data":{}}') == ()
    assert models_in(b'{"data":[1,{"id":2},{"id":"a","max_model_len":true}]}') == (
        ServedModel("a"),
    )


MISSING = {"error": {"message": "The model `x` does not exist."}}
REFUSALS: dict[str, tuple[list[Sequence[Answer]], dict[str, Any], str]] = {
    "no list of models": (
        [[[answer("404 Not Found", b"")]]], {}, "/models lists no model (HTTP 404); name the"),
    "several models": (
        [[models({"id": "a"}, {"id": "b"})]], {}, "2 models; choose by --model: a, b"),
    "many models": (
        [[models(*({"id": str(n)} for n in range(9)))]], {}, "--model: 0, 1, 2, 3, 4, …"),
    "wrong model": (
        [[ONE], [[answer("404 Not Found", orjson.dumps(MISSING))]]], {"model": "x"},
        "does not serve the model 'x'; choose one it does: tiny"),
    "wrong model, no list": (
        [[[answer("404 Not Found", b"")]], [[answer("404 Not Found", orjson.dumps(MISSING))]]],
        {"model": "x"}, "does not serve the model 'x'; check --model"),
    "wrong path": (
        [[ONE], [[answer("404 Not Found", b"nothing here")]]], {},
        "there is no /v1/chat/completions on 127.0.0.1:"),
    "no key": ([[[answer("401 Unauthorized", b"")]]], {}, "wants an API key; set OPENAI_API_KEY"),
    "wrong key": (
        [[ONE], [[answer("401 Unauthorized", b"")]]], {"api_key": "k"},
        "refuses the API key; check OPENAI_API_KEY"),
    "not HTTP": ([[[b"SSH-2.0\r\n"]]], {}, "does not answer HTTP (the answer is not HTTP)"),
    "closed": ([[[Move.CLOSE]]], {}, "does not answer HTTP (connection closed)"),
    "no streaming": (
        [[ONE], [[answer("200 OK", b"{}", "Content-Type: application/json")]]], {},
        "the server does not stream"),
    "a tiny context": (
        [[ONE], [[answer("400 Bad Request", b"maximum context length is 4")]]], {},
        "context is too small for the shortest request"),
    "a server that refuses every request": (
        [[ONE], [[answer("400 Bad Request", b"no")]] * 3], {}, "of one line (HTTP 400: no)"),
    "a failing server": (
        [[ONE], [[answer("500 Oops", b"no GPU")]]], {}, "fails a request of one line"),
}  # fmt: skip


@pytest.mark.parametrize(("scripts", "more", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_a_server_no_run_is_possible_on_is_refused_in_a_sentence(
    scripts: list[Sequence[Answer]], more: dict[str, Any], sentence: str
) -> None:
    assert sentence in refused(*scripts, **more)


def test_a_server_that_is_not_there_is_refused_in_a_sentence() -> None:
    async def run() -> None:
        async with scripted([ONE]) as server:
            port = server.port
        await ask_server(EndpointSettings(BaseUrl("http", "127.0.0.1", port, "/v1"), ""))

    with refuses("server-unreachable", "127.0.0.1") as raised:
        asyncio.run(run())
    assert raised.value.exit_code == 3
