"""What a server is and can do, found out before a run by two plain requests.

Asks for the models, then for one tiny streamed completion. Whatever makes a run impossible is
told in plain words here, once, instead of failing every request of the run.
Not for: measuring; nothing asked here is in any record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agentx_replay.endpoint.chat import ChatRequests, head_start
from agentx_replay.endpoint.client import Client, ConnectError
from agentx_replay.endpoint.completions import CompletionRequests
from agentx_replay.endpoint.connection import announced_keep_alive_s
from agentx_replay.endpoint.outcome import short
from agentx_replay.endpoint.patience import LIMITS, Limits, Patience
from agentx_replay.endpoint.server_words import overflows
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.errors import UsageError
from agentx_replay.reason import Reason
from agentx_replay.replay.ports import ErrorCategory, Response, Status

NEW_FIELD, OLD_FIELD = "max_completion_tokens", "max_tokens"
_NEW_LIMIT, _OLD_LIMIT = 7, 5
_MESSAGES = b'[{"role":"user","content":"Count from one to one hundred."}]'
_PROMPT = b'"One, two, three, four,"'
_STREAM = "readiness"
_UNUSABLE = 3
_OK = 200
_MODELS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as ``/v1/models`` lists it.

    ``max_model_len`` is how many tokens, prompt and output, one request may have, where the server
    tells: vLLM and SGLang as ``max_model_len``, llama.cpp as ``meta.n_ctx`` (a slot's share).
    """

    id: str
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What was found.

    ``max_tokens_field`` is the body field by which the server limits output; ``ignore_eos``
    whether it generated up to the limit, as asked. ``keep_alive_s`` is how long the server says it
    keeps an idle connection; None where it does not say.
    """

    model: str
    max_model_len: int | None
    served_models: tuple[str, ...]
    server: str | None
    max_tokens_field: str
    ignore_eos: bool
    usage_reported: bool
    cached_tokens_reported: bool
    keep_alive_s: float | None = None

    def warnings(self) -> tuple[Reason, ...]:
        """Return everything that will keep a run from being valid or complete."""
        told = (
            (
                self.usage_reported,
                Reason(
                    "server-without-usage",
                    "the server reports no usage, so no run on it can be valid",
                ),
            ),
            (
                self.cached_tokens_reported or not self.usage_reported,
                Reason(
                    "server-without-cached-tokens",
                    "the server does not report cached tokens, so the cache hit cannot be measured",
                ),
            ),
            (
                self.ignore_eos or not self.usage_reported,
                Reason(
                    "server-ends-early",
                    "the server ends before the requested length (ignore_eos has no effect), "
                    "so responses will be counted as length mismatches",
                ),
            ),
        )
        return tuple(reason for fine, reason in told if not fine)


async def ask_server(settings: EndpointSettings, limits: Limits = LIMITS) -> ServerFacts:
    """Return what the server is and can do; an empty ``settings.model`` means its only one.

    Raises UsageError (exit code 3) where no run against it is possible, and where it does not
    answer within the limits.
    """
    patience = Patience(settings.url, limits)
    models_client = Client(settings)
    try:
        async with patience.at_most(limits.models_s):
            answer = await _models(models_client, settings)
    finally:
        await models_client.close()
    models, headers = answer.models, answer.headers
    model = _choose(settings, answer)
    found = replace(settings, model=model.id)
    client = Client(found)
    try:
        async with patience.at_most(limits.request_s):
            field, response = await _probe(client, found, models)
    finally:
        await client.close()
    return ServerFacts(
        model=model.id,
        max_model_len=model.max_model_len,
        served_models=tuple(each.id for each in models),
        server=headers.get(b"server", b"").decode("latin-1") or None,
        max_tokens_field=field,
        ignore_eos=response.completion_tokens in (_NEW_LIMIT, _OLD_LIMIT),
        usage_reported=response.completion_tokens is not None,
        cached_tokens_reported=response.cached_tokens is not None,
        keep_alive_s=announced_keep_alive_s(headers.get(b"keep-alive", b"")),
    )


# --- the models ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a server answered when asked for its models: none where it has no list."""

    http_status: int
    headers: Mapping[bytes, bytes]
    models: tuple[ServedModel, ...]


async def _models(client: Client, settings: EndpointSettings) -> _Listing:
    """Ask for the models. Raises UsageError where nothing answers, or refuses the key."""
    request = head_start(settings, "GET", "/models") + b"\r\n"
    try:
        exchange, _, _ = await client.exchange(_STREAM, request, streamed=False)
    except ConnectError as error:
        raise _unusable(
            "server-unreachable", error.text, "check the URL, and that the server is up"
        ) from error
    text = exchange.body.text if exchange.body is not None else b""
    if exchange.http_status in (401, 403):
        raise _no_key(settings)
    if exchange.http_status is None:
        raise _unusable(
            "server-not-http",
            f"{settings.url} does not answer HTTP ({exchange.fault or 'connection closed'})",
            "check scheme and port of the URL",
        )
    models = models_in(text) if exchange.http_status == _OK else ()
    return _Listing(exchange.http_status, exchange.headers, models)


def models_in(text: bytes) -> tuple[ServedModel, ...]:
    """Return the models in the body of ``/v1/models``; none where it is something else."""
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ()
    entries = listed.get("data") if isinstance(listed, dict) else None
    return tuple(
        ServedModel(entry["id"], _max_model_len(entry))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    )


def _max_model_len(entry: dict[str, Any]) -> int | None:
    meta = entry.get("meta")
    slot = meta.get("n_ctx") if isinstance(meta, dict) else None
    return _length(entry.get("max_model_len")) or _length(slot)


def _length(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _choose(settings: EndpointSettings, answer: _Listing) -> ServedModel:
    """Return the model asked for, or the only one served; a server may serve unlisted ones."""
    models = answer.models
    if settings.model:
        listed = (each for each in models if each.id == settings.model)
        return next(listed, ServedModel(settings.model))
    if len(models) == 1:
        return models[0]
    if not models:
        raise _unusable(
            "model-not-listed",
            f"{settings.url}/models lists no model (HTTP {answer.http_status})",
            "name the model with --model, or check that the URL is the base of the API (…/v1)",
        )
    raise _unusable(
        "several-models",
        f"the server has {len(models)} models",
        f"choose by --model: {_names(models)}",
    )


def _names(models: tuple[ServedModel, ...]) -> str:
    more = ", …" if len(models) > _MODELS_SHOWN else ""
    return ", ".join(each.id for each in models[:_MODELS_SHOWN]) + more


# --- the tiny completion ------------------------------------------------------------------------


async def _probe(
    client: Client, settings: EndpointSettings, models: tuple[ServedModel, ...]
) -> tuple[str, Response]:
    """Return the limit field the server honours and its response; completions have only the old.

    Both fields at once, with different limits, so that the count tells which was honoured and no
    server can run on; one by one where the server refuses them together.
    """
    if settings.api == "completions":
        response = await _ask(client, settings, {})
        _check(response, settings, models)
        return OLD_FIELD, response
    both = replace(settings, max_tokens_field=NEW_FIELD)
    response = await _ask(client, both, {OLD_FIELD: _OLD_LIMIT})
    if response.error_category is not ErrorCategory.BAD_REQUEST:
        _check(response, settings, models)
        return (OLD_FIELD if response.completion_tokens == _OLD_LIMIT else NEW_FIELD), response
    for field in (NEW_FIELD, OLD_FIELD):
        response = await _ask(client, replace(settings, max_tokens_field=field), {})
        if response.error_category is not ErrorCategory.BAD_REQUEST:
            break
    _check(response, settings, models)
    return field, response


async def _ask(client: Client, settings: EndpointSettings, extra: dict[str, int]) -> Response:
    if settings.api == "completions":
        request = CompletionRequests(settings, extra).build({}, _NEW_LIMIT, _PROMPT)
    else:
        request = ChatRequests(settings, extra).build({}, _NEW_LIMIT, _MESSAGES)
    return await client.request(_STREAM, request)


def _check(response: Response, settings: EndpointSettings, models: tuple[ServedModel, ...]) -> None:
    """Raise UsageError where the tiny completion shows that no run is possible."""
    if response.status is Status.OK:
        return
    text = response.error_text or "no reason given"
    if response.status is Status.OVERFLOW or overflows(text):
        raise _unusable(
            "server-context-too-small",
            f"the server's context is too small for the shortest request ({text})",
            "start it with a longer context",
        )
    match response.error_category:
        case ErrorCategory.UNAUTHORIZED:
            raise _no_key(settings)
        case ErrorCategory.NOT_FOUND:
            raise _not_found(text, settings, models)
        case ErrorCategory.MALFORMED:
            raise _unusable(
                "server-without-streaming",
                f"the server does not stream ({text})",
                "turn streaming on",
            )
        case _:
            raise _unusable(
                "server-fails",
                f"the server fails a request of one line ({text})",
                "see the server's log",
            )


def _not_found(
    text: str, settings: EndpointSettings, models: tuple[ServedModel, ...]
) -> UsageError:
    """Tell a model that is not served from a path that is not there."""
    if settings.model.lower() in text.lower() or "model" in text.lower():
        return _unusable(
            "model-not-served",
            f"the server does not serve the model {settings.model!r}",
            f"choose one it does: {_names(models)}" if models else "check --model",
        )
    path = "/completions" if settings.api == "completions" else "/chat/completions"
    return _unusable(
        "api-path-missing",
        f"there is no {settings.url.path}{path} on {settings.url.authority} ({text})",
        "give the base of the API, usually http://HOST:PORT/v1",
    )


def _no_key(settings: EndpointSettings) -> UsageError:
    if settings.api_key:
        return _unusable(
            "api-key-refused", "the server refuses the API key", f"check {settings.api_key_env}"
        )
    return _unusable(
        "api-key-missing", "the server wants an API key", f"set {settings.api_key_env}"
    )


def _unusable(code: str, what: str, what_to_do: str) -> UsageError:
    return UsageError(code, short(what), what_to_do, exit_code=_UNUSABLE)
