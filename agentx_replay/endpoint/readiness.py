"""What a server is and can do, found out before a run by two plain requests.

Asks for the models, then for one tiny streamed completion. Whatever makes a run impossible is
told in plain words here, once, instead of failing every request of the run.
Not for: measuring; nothing asked here is in any record.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from agentx_replay.endpoint.asking import Asker, Limits, json_of, unusable
from agentx_replay.endpoint.completion_stream import ParsedStream
from agentx_replay.endpoint.connection import Exchange, announced_keep_alive_s
from agentx_replay.endpoint.outcome import response_of
from agentx_replay.endpoint.requests import NEW_LIMIT, OLD_LIMIT, fixed_fields
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.errors import UsageError
from agentx_replay.reason import Reason
from agentx_replay.replay.ports import ErrorCategory, Response, Status

_LIMITS = {NEW_LIMIT: 7, OLD_LIMIT: 5}
"""Both at once, so that the count tells which was honoured and no server can run on."""

_OPTIONAL = ("ignore_eos", "stream_options")
"""Fields that a run can do without, and some servers refuse."""

_ASKED: dict[str, Any] = {
    "chat": {"messages": [{"role": "user", "content": "Count from one to one hundred."}]},
    "completions": {"prompt": "One, two, three, four,"},
}
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

    ``max_tokens_field`` is the body field by which the server limits output, ``refused_fields``
    those it refuses; ``ignore_eos`` whether it generated up to the limit, as asked. ``odd_usage``
    is a count that cannot be one. ``keep_alive_s`` is how long the server says it keeps an idle
    connection; None where it does not say.
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
    refused_fields: tuple[str, ...] = ()
    odd_usage: str | None = None

    def warnings(self) -> tuple[Reason, ...]:
        """Return everything that will keep a run from being valid or complete."""
        refused = tuple(
            Reason("field-refused", f"the server refuses {field}, which is left out")
            for field in self.refused_fields
        )
        if self.odd_usage is not None:
            said = f"the server's usage is no count ({self.odd_usage}), so no run can be valid"
            return (*refused, Reason("server-usage-odd", said))
        if not self.usage_reported:
            said = "the server reports no usage, so no run on it can be valid"
            return (*refused, Reason("server-without-usage", said))
        told = []
        if not self.cached_tokens_reported:
            said = (
                "the server reported no cached tokens for its first request; if it never does, "
                "the cache hit cannot be measured"
            )
            told.append(Reason("server-without-cached-tokens", said))
        if not self.ignore_eos:
            said = (
                "the server ends before the requested length (ignore_eos has no effect), "
                "so responses will be counted as length mismatches"
            )
            told.append(Reason("server-ends-early", said))
        return (*refused, *told)


async def ask_server(settings: EndpointSettings, limits: Limits | None = None) -> ServerFacts:
    """Return what the server is and can do; an empty ``settings.model`` means its only one.

    Raises UsageError (exit code 3) where no run against it is possible, and where it does not
    answer within the limits.
    """
    asker = Asker(settings, limits)
    try:
        listing = await asker.ask("/models", connection="models")
        models = models_in(json_of(listing))
        model = _choose(settings, models, listing.http_status)
        asker.settings = replace(settings, model=model.id)
        probe = await _Prober(asker).probed()
        _check(probe.response, asker.settings, models)
    finally:
        await asker.close()
    counted, events = probe.response.completion_tokens, len(probe.response.arrival_ns)
    odd = probe.stream.odd_usage or ("completion_tokens 0" if counted == 0 and events else None)
    headers = listing.headers
    return ServerFacts(
        model=model.id,
        max_model_len=model.max_model_len,
        served_models=tuple(each.id for each in models),
        server=headers.get(b"server", b"").decode("latin-1") or None,
        max_tokens_field=probe.limit_field,
        ignore_eos=counted in _LIMITS.values(),
        usage_reported=counted is not None,
        cached_tokens_reported=probe.response.cached_tokens is not None,
        keep_alive_s=announced_keep_alive_s(headers.get(b"keep-alive", b"")),
        refused_fields=probe.refused_fields,
        odd_usage=odd,
    )


# --- the models ---------------------------------------------------------------------------------


def models_in(listed: Any) -> tuple[ServedModel, ...]:
    """Return the models in the JSON of ``/v1/models``; none where it is something else."""
    entries = listed.get("data") if isinstance(listed, dict) else None
    return tuple(
        ServedModel(entry["id"], _max_model_len(entry))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and _is_name(entry.get("id"))
    )


def _is_name(name: Any) -> bool:
    """Whether it is a text that can be sent back: half of a surrogate pair has no UTF-8."""
    return isinstance(name, str) and name == name.encode(errors="ignore").decode()


def _max_model_len(entry: dict[str, Any]) -> int | None:
    meta = entry.get("meta")
    slot = meta.get("n_ctx") if isinstance(meta, dict) else None
    lengths = (entry.get("max_model_len"), slot)
    return next((each for each in lengths if type(each) is int and each > 0), None)


def _choose(
    settings: EndpointSettings, models: tuple[ServedModel, ...], http_status: int | None
) -> ServedModel:
    """Return the model asked for, or the only one served; a server may serve unlisted ones."""
    if settings.model:
        listed = (each for each in models if each.id == settings.model)
        return next(listed, ServedModel(settings.model))
    if len(models) == 1:
        return models[0]
    if not models:
        raise unusable(
            "model-not-listed",
            f"{settings.url}/models lists no model (HTTP {http_status})",
            "name the model with --model, or check that the URL is the base of the API (…/v1)",
        )
    what = f"the server has {len(models)} models"
    raise unusable("several-models", what, f"choose by --model: {_names(models)}")


def _names(models: tuple[ServedModel, ...]) -> str:
    more = ", …" if len(models) > _MODELS_SHOWN else ""
    return ", ".join(each.id for each in models[:_MODELS_SHOWN]) + more


# --- the tiny completion ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Probe:
    """A tiny completion, and with which fields it was asked for."""

    response: Response
    stream: ParsedStream
    limit_field: str
    refused_fields: tuple[str, ...] = ()


class _Prober:
    """Finds the fields that a server takes."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._settings = asker.settings

    async def probed(self) -> _Probe:
        """Ask with every field at once; where that is refused, find out which field it is for."""
        completions = self._settings.api == "completions"
        limits = (OLD_LIMIT,) if completions else (NEW_LIMIT, OLD_LIMIT)
        probe = await self._with(limits, ())
        if not _is_refused(probe):
            honoured_old = probe.response.completion_tokens == _LIMITS[OLD_LIMIT]
            return replace(probe, limit_field=OLD_LIMIT) if honoured_old else probe
        for limit in limits:
            probe = await self._with((limit,), _OPTIONAL)
            if not _is_refused(probe):
                return await self._with_optional(limit, probe)
        return probe

    async def _with_optional(self, limit: str, probe: _Probe) -> _Probe:
        """Add the optional fields again, one by one, to a request that was taken without."""
        asked = fixed_fields(self._settings)
        for field in _OPTIONAL:
            if field in asked:
                left_out = tuple(each for each in probe.refused_fields if each != field)
                more = await self._with((limit,), left_out)
                probe = probe if _is_refused(more) else more
        refused = tuple(each for each in probe.refused_fields if each in asked)
        return replace(probe, refused_fields=refused)

    async def _with(self, limits: Collection[str], left_out: tuple[str, ...]) -> _Probe:
        settings = replace(self._settings, refused_fields=left_out)
        body = fixed_fields(settings) | {name: _LIMITS[name] for name in limits}
        body |= _ASKED[settings.api]
        exchange = await self._asker.ask(settings.completions_path, body, connection="probe")
        return _Probe(
            response_of(exchange, settings.secrets),
            _stream_of(exchange),
            next(iter(limits)),
            left_out,
        )


def _is_refused(probe: _Probe) -> bool:
    return probe.response.error_category is ErrorCategory.BAD_REQUEST


def _stream_of(exchange: Exchange) -> ParsedStream:
    return (exchange.body and exchange.body.stream) or ParsedStream()


def _check(response: Response, settings: EndpointSettings, models: tuple[ServedModel, ...]) -> None:
    """Raise UsageError where the tiny completion shows that no run is possible."""
    text = response.error_text or "no reason given"
    if response.status is Status.OVERFLOW:
        raise unusable(
            "server-context-too-small",
            f"the server's context is too small for the shortest request ({text})",
            "start it with a longer context",
        )
    match response.error_category:
        case None:
            return
        case ErrorCategory.NOT_FOUND:
            raise _not_found(text, settings, models)
        case ErrorCategory.MALFORMED:
            what = f"the server does not stream ({text})"
            raise unusable("server-without-streaming", what, "turn streaming on")
        case _:
            raise unusable(
                "server-fails",
                f"the server fails a request of one line ({text})",
                "see the server's log",
            )


def _not_found(
    text: str, settings: EndpointSettings, models: tuple[ServedModel, ...]
) -> UsageError:
    """Tell a model that is not served from a path that is not there."""
    if settings.model.lower() in text.lower() or "model" in text.lower():
        return unusable(
            "model-not-served",
            f"the server does not serve the model {settings.model!r}",
            f"choose one it does: {_names(models)}" if models else "check --model",
        )
    path = f"{settings.url.path}{settings.completions_path}"
    return unusable(
        "api-path-missing",
        f"there is no {path} on {settings.url.authority} ({text})",
        "give the base of the API, usually http://HOST:PORT/v1",
    )
