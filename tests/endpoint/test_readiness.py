"""What is found out about a server before a run, and what is said where no run is possible."""

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop
from certificates import made_certificate, server_context
from counting_server import Body, Reply, Replying, completion, counting_server
from refusals import refuses
from scripted_server import (
    DONE,
    HEAD,
    LAST_CHUNK,
    Answer,
    Move,
    ScriptedServer,
    answer,
    chunk,
    scripted,
    token,
    usage,
)

from agentx_replay.endpoint.asking import Asker, Limits
from agentx_replay.endpoint.connect_error import connect_error
from agentx_replay.endpoint.readiness import ServedModel, ServerFacts, ask_server, models_in
from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
from agentx_replay.endpoint.url import BaseUrl, parse_base_url


@pytest.fixture(autouse=True)
def _brief_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentx_replay.endpoint.asking._DEFAULT_WAIT_S", 0.05)


def models(*entries: dict[str, Any]) -> Answer:
    return [answer("200 OK", orjson.dumps({"data": entries}), "Server: uvicorn")]


ONE = models({"id": "tiny", "max_model_len": 8192})


def completed(count: int, finish: str = "length", *, cached: bool = True) -> Answer:
    used = usage(12, count)
    if not cached:
        used = (
            b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":%d}}\n\n' % count
        )
    body = token("x") * (count - 1) + token("x", finish) + used + DONE
    return [HEAD, chunk(body), LAST_CHUNK]


def ask(
    *scripts: Sequence[Answer], model: str = "", limits: Limits | None = None, **more: Any
) -> tuple[ServerFacts, list[bytes]]:
    """Return what is found with one script a connection, and the requests made."""

    async def run() -> tuple[ServerFacts, list[bytes]]:
        async with scripted(*scripts) as server:
            url = BaseUrl("http", "127.0.0.1", server.port, "/v1")
            settings = EndpointSettings(url, model, **more)
            return await ask_server(settings, limits), server.requests

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def test_two_requests_tell_all() -> None:
    facts, requests = ask([ONE], [completed(7)])
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
    facts, _ = ask([ONE], [completed(5)])
    assert facts.max_tokens_field == "max_tokens"


Accepts = Callable[[Body], bool]
"""Whether a server takes a body."""

TAKES: dict[str, tuple[Accepts, str, tuple[str, ...]]] = {
    "all": (lambda body: True, "max_completion_tokens", ()),
    "not both limits": (
        lambda body: len({"max_tokens", "max_completion_tokens"} & body.keys()) == 1,
        "max_completion_tokens", ()),
    "no new limit": (lambda body: "max_completion_tokens" not in body, "max_tokens", ()),
    "no old limit": (lambda body: "max_tokens" not in body, "max_completion_tokens", ()),
    "no ignore_eos": (
        lambda body: "ignore_eos" not in body, "max_completion_tokens", ("ignore_eos",)),
    "no stream_options": (
        lambda body: "stream_options" not in body, "max_completion_tokens", ("stream_options",)),
    "nothing beyond the first API": (
        lambda body: not {"max_completion_tokens", "ignore_eos", "stream_options"} & body.keys(),
        "max_tokens", ("ignore_eos", "stream_options")),
}  # fmt: skip


def answering(reply: Replying, model: str = "tiny", **more: Any) -> tuple[ServerFacts, list[Body]]:
    """Return what is found of a server that answers as ``reply`` says, and the bodies it got."""

    async def run() -> tuple[ServerFacts, list[Body]]:
        async with counting_server(reply) as server:
            settings = EndpointSettings(parse_base_url(server.url), model, **more)
            return await ask_server(settings), [body for _, body in server.asked if body]

    return uvloop.run(run())


def taking(accepts: Accepts, status: int = 400) -> Replying:
    def reply(path: str, body: Body) -> Reply:
        if path == "/v1/models":
            return Reply(json={"data": []})
        if not accepts(body):
            return Reply(status, {"error": {"message": "unsupported parameter"}})
        return completion(body, 12)

    return reply


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("accepts", "limit", "refused"), TAKES.values(), ids=TAKES)
def test_fields_that_a_server_refuses_are_left_out_and_named(
    accepts: Accepts, limit: str, refused: tuple[str, ...], status: int
) -> None:
    facts, bodies = answering(taking(accepts, status))
    assert (facts.max_tokens_field, facts.refused_fields) == (limit, refused)
    named = [warning.text for warning in facts.warnings() if warning.code == "field-refused"]
    assert len(named) == len(refused)
    assert all(field in said for field, said in zip(refused, named, strict=True))
    assert len(bodies) <= 5


def test_a_field_that_the_user_leaves_out_is_not_asked_and_not_named() -> None:
    takes = TAKES["no ignore_eos"][0]
    facts, bodies = answering(taking(takes), extra_body={"ignore_eos": None, "seed": 1})
    assert facts.refused_fields == ()
    assert all(body["seed"] == 1 and "ignore_eos" not in body for body in bodies)


@pytest.mark.parametrize(
    ("answered", "code", "ignore_eos", "usage_reported"),
    [
        (completed(3, "stop"), "server-ends-early", False, True),
        (completed(7, cached=False), "server-without-cached-tokens", True, True),
        (
            [HEAD, chunk(token("x", "length") + DONE), LAST_CHUNK],
            "server-without-usage",
            False,
            False,
        ),
    ],
)
def test_what_a_server_does_not_do_is_told(
    answered: Answer, code: str, ignore_eos: bool, usage_reported: bool
) -> None:
    facts, _ = ask([ONE], [answered])
    assert (facts.ignore_eos, facts.usage_reported) == (ignore_eos, usage_reported)
    assert [warning.code for warning in facts.warnings()] == [code]


@pytest.mark.parametrize("odd", ["-5", "1e40", '"7"', "4.5", "0"])
def test_usage_that_is_no_count_is_told_and_is_not_called_absent(odd: str) -> None:
    used = b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":%b}}\n\n'
    body = token("x", "length") + used % odd.encode() + DONE
    facts, _ = ask([ONE], [[HEAD, chunk(body), LAST_CHUNK]])
    (warning,) = facts.warnings()
    assert warning.code == "server-usage-odd"
    assert "completion_tokens" in warning.text


LOADING: dict[str, Reply] = {
    "llama.cpp": Reply(503, {"error": {"message": "Loading model", "code": 503}}),
    "a gateway": Reply(502, {"detail": "Bad Gateway"}),
    "by its words": Reply(500, {"error": "model is loading, try again"}),
    "busy": Reply(429, {"error": "Model is overloaded"}, headers=("Retry-After: 0",)),
    "without words": Reply(503, {}, headers=("Retry-After: 0",)),
}


@pytest.mark.parametrize("loading", LOADING.values(), ids=LOADING)
def test_a_server_that_is_loading_is_waited_for_with_its_words(
    loading: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    replies = [loading] * 3

    def reply(path: str, body: Body) -> Reply:
        return replies.pop() if replies else taking(lambda body: True)(path, body)

    assert answering(reply)[0].model == "tiny"
    (waiting,) = caplog.messages
    assert f"HTTP {loading.status}" in waiting


HANGING: Answer = [Move.HANG]
DRIPPING: Answer = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", *[b" "] * 100, Move.HANG]


@pytest.mark.parametrize("never", [HANGING, DRIPPING], ids=["nothing", "byte by byte"])
def test_a_server_that_never_lists_its_models_is_given_up(
    never: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    with refuses("server-silent", "/v1", "0.3 s"):
        ask([never], limits=Limits(told_after_s=0.0, models_s=0.3, request_s=30.0))
    (waiting,) = caplog.messages
    assert "waiting for http://127.0.0.1:" in waiting


def test_a_server_that_never_completes_is_given_up_later() -> None:
    with refuses("server-silent", "0.3 s"):
        ask([ONE], [HANGING], limits=Limits(models_s=30.0, request_s=0.3))


def test_of_a_server_that_answers_no_waiting_is_told(caplog: pytest.LogCaptureFixture) -> None:
    ask([ONE], [completed(7)])
    assert caplog.messages == []


def test_a_model_that_is_named_need_not_be_listed() -> None:
    facts, _ = ask([[answer("404 Not Found", b"")]], [completed(7)], model="mine")
    assert (facts.model, facts.max_model_len, facts.served_models) == ("mine", None, ())


def test_llama_cpp_tells_the_context_of_a_slot() -> None:
    listed = b'{"data":[{"id":"a","meta":{"n_ctx":4096,"n_ctx_train":131072}},{"id":"b","meta":1}]}'
    assert models_in(orjson.loads(listed)) == (ServedModel("a", 4096), ServedModel("b"))


def test_a_model_whose_name_cannot_be_sent_back_is_not_listed() -> None:
    assert models_in({"data": [{"id": "m\ud800"}, {"id": "tiny"}]}) == (ServedModel("tiny"),)


def test_a_list_of_models_in_other_shapes_is_empty() -> None:
    assert models_in(None) == models_in([]) == models_in({"data": {}}) == ()
    listed = {"data": [1, {"id": 2}, {"id": "a", "max_model_len": True}]}
    assert models_in(listed) == (ServedModel("a"),)


MISSING = answer("404 Not Found", b'{"error": {"message": "The model `x` does not exist."}}')
NO_LIST = [[answer("404 Not Found", b"")]]
NOT_WAITING = Limits(busy_s=0.0)
Refusal = tuple[list[Sequence[Answer]], dict[str, Any], str, tuple[str, ...]]
REFUSALS: dict[str, Refusal] = {
    "no list of models": ([NO_LIST], {}, "model-not-listed", ("HTTP 404", "--model")),
    "several models": (
        [[models({"id": "a"}, {"id": "b"})]], {}, "several-models", ("2", "--model: a, b")),
    "many models": (
        [[models(*({"id": str(n)} for n in range(9)))]], {}, "several-models", ("3, 4, …",)),
    "wrong model": ([[ONE], [[MISSING]]], {"model": "x"}, "model-not-served", ("'x'", "tiny")),
    "wrong model, no list": (
        [NO_LIST, [[MISSING]]], {"model": "x"}, "model-not-served", ("'x'", "--model")),
    "wrong path": (
        [[ONE], [[answer("404 Not Found", b"nothing here")]]], {},
        "api-path-missing", ("/v1/chat/completions on 127.0.0.1:", "nothing here")),
    "no key": ([[[answer("401 No", b"")]]], {}, "api-key-missing", ("OPENAI_API_KEY",)),
    "no key, of another variable": (
        [[[answer("403 No", b"")]]], {"api_key_env": "MY_KEY"}, "api-key-missing", ("MY_KEY",)),
    "wrong key": (
        [[ONE], [[answer("401 No", b"")]]], {"api_key": "k" * 8, "api_key_env": "MY_KEY"},
        "api-key-refused", ("MY_KEY",)),
    "not HTTP": ([[[b"SSH-2.0\r\n"]]], {}, "server-not-http", ()),
    "closed": ([[[Move.CLOSE]]], {}, "server-closes", ()),
    "reset": ([[[Move.RESET]]], {}, "server-closes", ()),
    "no streaming": (
        [[ONE], [[answer("200 OK", b"{}", "Content-Type: application/json")]]], {},
        "server-without-streaming", ()),
    "a tiny context": (
        [[ONE], [[answer("400 No", b"maximum context length is 4")]]], {},
        "server-context-too-small", ("length is 4",)),
    "a server that refuses every request": (
        [[ONE], [[answer("400 Bad Request", b"no")]] * 3], {}, "server-fails", ("HTTP 400: no",)),
    "a failing server": (
        [[ONE], [[answer("500 Oops", b"no GPU")]]], {}, "server-fails", ("HTTP 500: no GPU",)),
    "moved": (
        [[[answer("301 Moved", b"", "Location: https://other:8443/api/v1/models")]]], {},
        "server-redirects", ("https://other:8443/api/v1 ", "301", "--url")),
    "moved, by a path": (
        [[[answer("307 Moved", b"", "Location: /api/v1/models")]]], {},
        "server-redirects", ("/api/v1 ", "307")),
    "moved, to a login": (
        [[[answer("302 Found", b"", "Location: /login")]]], {}, "server-redirects", ("/login",)),
    "moved, nobody says where": ([[[answer("308 Moved", b"")]]], {}, "server-redirects", ("308",)),
    "completions that moved": (
        [[ONE], [[answer("301 Moved", b"", "Location: http://x/v2/chat/completions")]]], {},
        "server-redirects", ("http://x/v2 ",)),
}  # fmt: skip


@pytest.mark.parametrize(("scripts", "more", "code", "named"), REFUSALS.values(), ids=REFUSALS)
def test_a_server_that_no_run_is_possible_on_is_refused(
    scripts: list[Sequence[Answer]], more: dict[str, Any], code: str, named: tuple[str, ...]
) -> None:
    with refuses(code, *named) as raised:
        ask(*scripts, limits=NOT_WAITING, wait_s=0.0, **more)
    assert raised.value.exit_code == 3


def coded(coding: str, body: bytes) -> bytes:
    """Return a whole answer that says it has a coding."""
    return answer("200 OK", body, f"Content-Encoding: {coding}", "Content-Type: text/event-stream")


LISTED = orjson.dumps({"data": [{"id": "tiny"}]})
COMPLETED = token("x") * 6 + token("x", "length") + usage(12, 7) + DONE
NOT_UNDONE = ("br", "zstd", "compress", "gzip, br", "x-nobody-knows", "gzip", "deflate")


@pytest.mark.parametrize("coding", NOT_UNDONE)
def test_any_other_coding_is_named_whichever_answer_has_it(coding: str) -> None:
    for scripts in ([[[coded(coding, LISTED)]]], [[ONE], [[coded(coding, COMPLETED)]]]):
        with refuses("server-compresses", coding, "gzip"):
            ask(*scripts)


async def _asked_before_it_listens(told: pytest.LogCaptureFixture) -> ServerFacts:
    server = ScriptedServer([[ONE], [completed(7)]], read_bodies=True)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = BaseUrl("http", "127.0.0.1", sock.getsockname()[1], "/v1")
        asking = asyncio.create_task(ask_server(EndpointSettings(url, "")))
        while not told.messages:
            await asyncio.sleep(0)
        async with await asyncio.start_server(server.serve, sock=sock):
            return await asking


def test_a_server_that_does_not_listen_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    assert uvloop.run(_asked_before_it_listens(caplog)).model == "tiny"
    (waiting,) = caplog.messages
    assert "waiting up to 10 s" in waiting
    assert "cannot connect" in waiting


@pytest.mark.parametrize("move", [Move.CLOSE, Move.RESET])
def test_a_proxy_that_closes_until_its_server_is_up_is_waited_for(
    move: Move, caplog: pytest.LogCaptureFixture
) -> None:
    facts, _ = ask([[move]], [[move]], [ONE], [completed(7)])
    assert facts.model == "tiny"
    assert len(caplog.messages) == 1


def test_a_server_that_never_listens_or_listens_no_more_is_refused() -> None:
    async def ask_nobody(wait_s: float, *, answered: bool) -> None:
        async with scripted([ONE]) as server:
            url = BaseUrl("http", "127.0.0.1", server.port, "/v1")
        await Asker(EndpointSettings(url, "", wait_s=wait_s), answered=answered).ask("/models")

    for wait_s, answered in ((0.0, False), (600.0, True)):
        with refuses("server-unreachable", "127.0.0.1"):
            uvloop.run(ask_nobody(wait_s, answered=answered))


# --- TLS ----------------------------------------------------------------------------------------


async def _answers_400(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a server without TLS does to a handshake, of which it understands nothing."""
    await reader.read(1)
    writer.write(answer("400 Bad Request", b"Invalid HTTP request received."))
    await writer.drain()
    writer.close()


def asked_at(url: str, certificate: tuple[Path, Path] | None, *, trusted: bool) -> None:
    """Ask a server whose port stands for PORT in the URL; it has TLS if there is a certificate."""

    async def run() -> None:
        context = None if certificate is None else server_context(certificate)
        server = await asyncio.start_server(_answers_400, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        tls = TlsSettings(ca_file=str(certificate[0]) if certificate and trusted else None)
        async with server:
            there = parse_base_url(url.replace("PORT", str(port)))
            await ask_server(EndpointSettings(there, "", tls=tls))

    uvloop.run(run())


TLS: dict[str, tuple[bool, str, bool, tuple[str, ...]]] = {
    "an authority that is not known": (
        True, "https://127.0.0.1:PORT", False, ("server-unreachable", "self-signed", "--ca-file")),
    "a certificate for another host": (
        True, "https://localhost:PORT", True, ("server-unreachable", "another host", "localhost")),
    "TLS asked of a server without": (
        False, "https://127.0.0.1:PORT", False, ("server-unreachable", "http://127.0.0.1:")),
    "a server with TLS, asked without": (
        True, "http://127.0.0.1:PORT", False, ("server-wants-tls", "https://127.0.0.1:")),
}  # fmt: skip


@pytest.mark.parametrize(("tls", "url", "trusted", "named"), TLS.values(), ids=TLS)
def test_what_is_wrong_with_tls_is_told(
    tls: bool, url: str, trusted: bool, named: tuple[str, ...], tmp_path: Path
) -> None:
    with refuses(*named):
        asked_at(url, made_certificate(tmp_path) if tls else None, trusted=trusted)


@pytest.mark.parametrize(
    "said",
    [
        b"<html>The plain HTTP request was sent to HTTPS port</html>",
        b"Client sent an HTTP request to an HTTPS server.\n",
    ],
)
def test_words_of_https_are_no_proof_of_it(said: bytes) -> None:
    with refuses("model-not-listed"):
        ask([[answer("400 Bad Request", said)]])


@pytest.mark.parametrize(
    ("code", "why", "way_out"),
    [
        (9, "certificate is not yet valid", "renew it"),  # X509_V_ERR of openssl/x509_vfy.h
        (10, "certificate has expired", "renew it"),
        (18, "self-signed certificate", "--ca-file"),
        (20, "unable to get local issuer certificate", "--ca-file"),
        (62, "Hostname mismatch", "the host that it names"),
        (64, "IP address mismatch", "the host that it names"),
    ],
)
def test_a_certificate_that_is_not_taken_has_its_way_out(code: int, why: str, way_out: str) -> None:
    failure = ssl.SSLCertVerificationError(1, why)
    failure.verify_code, failure.verify_message = code, why
    told = connect_error(parse_base_url("https://h"), failure, 0)
    assert why in told.text
    assert way_out in told.way_out


def test_a_client_without_files_for_connections_is_told_how_many_it_needs() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    failure = connect_error(
        parse_base_url("http://127.0.0.1:1"), OSError(errno.EMFILE, "Too many open files"), 7
    )
    # 7 connections, the one that failed, and 64 files of its own
    assert f"{limit} may be, and 7 connections need 72" in failure.text
    assert "72" in failure.way_out
