"""The OpenAI chat completions request as bytes, ready for a connection.

What does not change from request to request is built once; a request adds its ids, its output
limit and its messages. Not for: what the messages say (the prompts room), or sending.
"""

from collections.abc import Mapping
from types import MappingProxyType

import orjson

from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.replay.ports import Dispatch

_NONE: Mapping[str, int] = MappingProxyType({})


class ChatRequests:
    """Builds the chat requests of one server."""

    __slots__ = ("_body_start", "_head_start", "_limit_field", "_session_headers")

    def __init__(self, settings: EndpointSettings, more: Mapping[str, int] = _NONE) -> None:
        """``more`` are body fields beyond the user's, for a probe."""
        self._head_start = head_start(settings, "POST", "/chat/completions")
        self._body_start = body_start(settings, more)
        self._limit_field = settings.max_tokens_field.encode()
        self._session_headers = settings.session_headers

    def request(self, dispatch: Dispatch) -> tuple[bytes, ...]:
        """Return the HTTP request for a dispatch, in pieces; builds its messages."""
        ids = id_headers(dispatch, session=self._session_headers)
        return self._pieces(ids, dispatch.max_tokens, dispatch.prompt.messages_json())

    def build(self, ids: dict[str, str], max_tokens: int, messages_json: bytes) -> bytes:
        """Return the whole HTTP request for a JSON array of messages."""
        return b"".join(self._pieces(ids, max_tokens, messages_json))

    def _pieces(
        self, ids: dict[str, str], max_tokens: int, messages_json: bytes
    ) -> tuple[bytes, ...]:
        limit = b'"%b":%d,"messages":' % (self._limit_field, max_tokens)
        return post(self._head_start, ids, (self._body_start, limit, messages_json, b"}"))


def id_headers(dispatch: Dispatch, *, session: bool) -> dict[str, str]:
    """Return the headers that name a request and its stream and, if asked for, those by which
    routers keep a session together: the whole play's, and Dynamo's for a stream and its parent.
    """
    ids = {"X-Correlation-ID": dispatch.stream_id, "X-Request-ID": dispatch.request_id}
    if not session:
        return ids
    ids |= {
        "X-Session-ID": dispatch.play_id,
        "X-SMG-Routing-Key": dispatch.play_id,
        "X-Dynamo-Session-ID": dispatch.stream_id,
    }
    if dispatch.parent_stream_id is not None:
        ids["X-Dynamo-Parent-Session-ID"] = dispatch.parent_stream_id
    return ids


def post(head_start: bytes, headers: dict[str, str], body: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return a request with a JSON body given in parts: its pieces. A body is often long, and to
    join it costs more than to send it.
    """
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    length = sum(map(len, body))
    head = f"{lines}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return head_start, head.encode(), *body


def body_start(settings: EndpointSettings, more: Mapping[str, int]) -> bytes:
    """Return the JSON object of the fixed fields, open for more. The user's own fields win."""
    usage = {"include_usage": True}
    if settings.continuous_usage:
        usage["continuous_usage_stats"] = True
    fields = {
        "model": settings.model,
        "stream": True,
        "stream_options": usage,
        "ignore_eos": True,
        **settings.extra_body,
        **more,
    }
    return orjson.dumps(fields)[:-1] + b","


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
