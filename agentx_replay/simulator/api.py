"""The OpenAI-compatible requests the simulator understands: JSON in, values or a refusal out.

Pure: no socket, no engine. What is streamed back is in ``events.py``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from agentx_replay import __version__
from agentx_replay.simulator.tokens import Renderer, Tokens

DEFAULT_MAX_TOKENS = 16
"""Output of a request that says no ``max_tokens``, the completions API's own default: the model
simulated here has no end of its own."""

_MAX_TOKEN_ID = 2**32
JSON_TYPE = b"application/json"
_NAME = f"agentx-replay-simulator/{__version__}".encode()


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """One request to generate. ``chat`` tells the two APIs apart."""

    chat: bool
    model: str
    tokens: Tokens
    max_tokens: int
    stream: bool
    include_usage: bool
    usage_in_every_event: bool


class RefusedError(Exception):
    """A request that is answered with an error status: what the answer says."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, message, kind, param)


def error_body(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    """Return an error as vLLM shapes it."""
    return orjson.dumps(
        {"error": {"message": message, "type": kind, "param": param, "code": status}}
    )


def models_body(model: str, max_model_len: int, created_s: int) -> bytes:
    """Return the answer to ``GET /v1/models``."""
    card = {
        "id": model,
        "object": "model",
        "created": created_s,
        "owned_by": "agentx-replay",
        "max_model_len": max_model_len,
    }
    return orjson.dumps({"object": "list", "data": [card]})


def http_response(
    status: int, body: bytes, *, keep_alive: bool, content_type: bytes = JSON_TYPE
) -> bytes:
    """Return a whole response."""
    head = [
        b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, b"Status")),
        b"server: " + _NAME,
        b"content-type: " + content_type,
        b"content-length: %d" % len(body),
    ]
    if not keep_alive:
        head.append(b"connection: close")
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def parse_completion(body: bytes, *, chat: bool, served: str, renderer: Renderer) -> Completion:
    """Return what a body asks for. Raises RefusedError for what a server would refuse.

    ``ignore_eos``, sampling parameters and unknown fields change nothing: exactly
    ``max_tokens`` tokens always come.
    """
    asked = _json_object(body)
    model = asked.get("model") or served
    if model != served:
        raise RefusedError(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    if asked.get("n") not in (None, 1):
        raise RefusedError(400, "n must be 1: one choice is simulated.", param="n")
    options = asked.get("stream_options") or {}
    return Completion(
        chat=chat,
        model=served,
        tokens=_chat_tokens(asked, renderer) if chat else _prompt_tokens(asked, renderer),
        max_tokens=_max_tokens(asked),
        stream=bool(asked.get("stream")),
        include_usage=bool(options.get("include_usage")),
        usage_in_every_event=bool(options.get("continuous_usage_stats")),
    )


def tokenize_body(body: bytes, *, renderer: Renderer, max_model_len: int) -> bytes:
    """Return the answer to ``POST /tokenize``, as vLLM shapes it, of messages or of a prompt.

    Raises RefusedError for what a server would refuse.
    """
    asked = _json_object(body)
    chat = "messages" in asked
    tokens = _chat_tokens(asked, renderer) if chat else _prompt_tokens(asked, renderer)
    answer = {"count": len(tokens), "max_model_len": max_model_len, "tokens": tokens}
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"The body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise RefusedError(400, "The body is not a JSON object.")
    if not isinstance(asked.get("stream_options") or {}, dict):
        raise RefusedError(400, "stream_options must be an object.", param="stream_options")
    return asked


def _max_tokens(asked: dict[str, Any]) -> int:
    for param in ("max_completion_tokens", "max_tokens"):
        value = asked.get(param)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RefusedError(400, f"{param} must be at least 1, got {value!r}.", param=param)
        return value
    return DEFAULT_MAX_TOKENS


def _chat_tokens(asked: dict[str, Any], renderer: Renderer) -> Tokens:
    messages = asked.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RefusedError(400, "messages must be a list of messages.", param="messages")
    if not all(isinstance(message, dict) for message in messages):
        raise RefusedError(400, "every message must be an object.", param="messages")
    tools = asked.get("tools") or []
    if not isinstance(tools, list):
        raise RefusedError(400, "tools must be a list.", param="tools")
    return renderer.chat(messages, tools)


def _prompt_tokens(asked: dict[str, Any], renderer: Renderer) -> Tokens:
    prompt = asked.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        tokens = renderer.text(prompt)
    elif isinstance(prompt, list) and all(map(_is_token_id, prompt)):
        tokens = np.array(prompt, np.uint64)
    else:
        raise RefusedError(400, "prompt must be one text or one list of token ids.", param="prompt")
    if not len(tokens):
        raise RefusedError(400, "The prompt is empty.", param="prompt")
    return tokens


def _is_token_id(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_TOKEN_ID


_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
}
