"""The requests of one server as bytes, ready for a connection: chat completions, or completions.

What does not change from request to request is built once; a request adds its ids, its output
limit and its prompt: messages, or a text or token ids without a chat template. Not for: what a
prompt says (the prompts room), or sending.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.replay.ports import Dispatch

NEW_LIMIT, OLD_LIMIT = "max_completion_tokens", "max_tokens"
"""Fields that limit the output; completions have the old one alone."""

_NONE: Mapping[str, Any] = MappingProxyType({})


class Requests:
    """Builds the requests of one server. ``more`` are body fields beyond the user's."""

    __slots__ = ("_body_start", "_head_start", "_limit", "_session_headers")

    def __init__(self, settings: EndpointSettings, more: Mapping[str, Any] = _NONE) -> None:
        self._head_start = head_start(settings, "POST", settings.completions_path)
        self._body_start = orjson.dumps({**fixed_fields(settings), **more})[:-1]
        prompt = "prompt" if settings.api == "completions" else "messages"
        self._limit = f',"{settings.limit_field}":%d,"{prompt}":'.encode()
        self._session_headers = settings.session_headers

    def request(self, dispatch: Dispatch) -> tuple[bytes, ...]:
        """Return the HTTP request for a dispatch, in pieces; builds its prompt."""
        ids = id_headers(dispatch, session=self._session_headers)
        return self._pieces(ids, dispatch.max_tokens, dispatch.prompt.messages_json())

    def build(self, ids: dict[str, str], max_tokens: int, prompt_json: bytes) -> bytes:
        return b"".join(self._pieces(ids, max_tokens, prompt_json))

    def _pieces(
        self, ids: dict[str, str], max_tokens: int, prompt_json: bytes
    ) -> tuple[bytes, ...]:
        body = (self._body_start, self._limit % max_tokens, prompt_json, b"}")
        return post(self._head_start, ids, body)


def fixed_fields(settings: EndpointSettings) -> dict[str, Any]:
    """Return the body fields of every request. The user's own win; a null leaves one out, as does
    the server's refusal.
    """
    usage = {"include_usage": True}
    if settings.continuous_usage:
        usage["continuous_usage_stats"] = True
    fields = {
        "model": settings.model,
        "stream": True,
        "stream_options": usage,
        "ignore_eos": True,
        **settings.extra_body,
    }
    return {
        name: value
        for name, value in fields.items()
        if value is not None and (name not in settings.refused_fields)
    }


def id_headers(dispatch: Dispatch, *, session: bool) -> dict[str, str]:
    """Return the headers that name a request and its stream and, if asked for, those by which
    routers keep a session together: the whole play's, and Dynamo's for a stream and its parent.
    """
    ids = {"X-Correlation-ID": dispatch.conversation_id, "X-Request-ID": dispatch.request_id}
    if not session:
        return ids
    ids |= {
        "X-Session-ID": dispatch.play_id,
        "X-SMG-Routing-Key": dispatch.play_id,
        "X-Dynamo-Session-ID": dispatch.conversation_id,
    }
    if dispatch.parent_conversation_id is not None:
        ids["X-Dynamo-Parent-Session-ID"] = dispatch.parent_conversation_id
    return ids


def post(head_start: bytes, headers: dict[str, str], body: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return a request with a JSON body given in parts: its pieces. A body is often long, and to
    join it costs more than to send it.
    """
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    length = sum(map(len, body))
    head = f"{lines}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return head_start, head.encode(), *body


def head_start(settings: EndpointSettings, method: str, path: str) -> bytes:
    """Return a request head up to and with the headers that every request carries."""
    headers = {"Host": settings.url.authority, "Accept-Encoding": "identity"}
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key}"
    own = {name.lower() for name, _ in settings.extra_headers}
    lines = [f"{name}: {value}" for name, value in headers.items() if name.lower() not in own]
    lines += [f"{name}: {value}" for name, value in settings.extra_headers]
    start = f"{method} {settings.url.path}{path} HTTP/1.1"
    return "".join(f"{line}\r\n" for line in (start, *lines)).encode()
