"""The HTTP API that the simulator understands: JSON in, values or a refusal out.

OpenAI's completions, ``/tokenize`` and ``/metrics`` as vLLM has them. Pure: no socket, and of the
engine nothing but its figures. What is streamed back is in ``answer_stream.py``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from agentx_replay.simulator.engine import Engine
from agentx_replay.simulator.http_connection import error_body
from agentx_replay.simulator.tokens import Renderer, Tokens

DEFAULT_MAX_TOKENS = 16
"""Output of a request that says no ``max_tokens``, the completions API's own default: the model
simulated here has no end of its own."""

METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_MAX_TOKEN_ID = 2**32


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
        raise _bad("n", "must be 1: one choice is simulated")
    options = asked.get("stream_options") or {}
    if not isinstance(options, dict):
        raise _bad("stream_options", "must be an object")
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
    """Return the answer to ``POST /tokenize`` of messages or of a prompt, as vLLM shapes it.

    Raises RefusedError for what a server would refuse.
    """
    asked = _json_object(body)
    chat = "messages" in asked
    tokens = _chat_tokens(asked, renderer) if chat else _prompt_tokens(asked, renderer)
    answer = {"count": len(tokens), "max_model_len": max_model_len, "tokens": tokens}
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)


def _bad(param: str, what: str) -> RefusedError:
    return RefusedError(400, f"{param} {what}.", param=param)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"The body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise RefusedError(400, "The body is not a JSON object.")
    return asked


def _max_tokens(asked: dict[str, Any]) -> int:
    for param in ("max_completion_tokens", "max_tokens"):
        value = asked.get(param)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise _bad(param, f"must be at least 1, got {value!r}")
        return value
    return DEFAULT_MAX_TOKENS


def _chat_tokens(asked: dict[str, Any], renderer: Renderer) -> Tokens:
    messages, tools = asked.get("messages"), asked.get("tools") or []
    if not isinstance(messages, list) or not messages:
        raise _bad("messages", "must be a list of messages")
    if not all(isinstance(message, dict) for message in messages):
        raise _bad("messages", "must all be objects")
    if not isinstance(tools, list):
        raise _bad("tools", "must be a list")
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
        raise _bad("prompt", "must be one text or one list of token ids")
    if not len(tokens):
        raise _bad("prompt", "is empty")
    return tokens


def _is_token_id(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_TOKEN_ID


def metrics_page(engine: Engine, model: str) -> bytes:
    """Return the answer to ``GET /metrics``: the Prometheus text format, under vLLM's names.

    As in vLLM a prompt counts as looked up when it is admitted, in tokens, and memory in use is
    that of running sequences: what is merely kept is free. This engine never preempts.
    """
    cache = engine.cache
    usage = cache.used_blocks / cache.capacity_blocks
    looked_up, found = engine.looked_up_tokens, engine.found_tokens
    figures: tuple[tuple[str, str, str, float], ...] = (
        ("num_requests_running", "gauge", "Requests in the batch.", engine.running),
        ("num_requests_waiting", "gauge", "Requests not yet admitted.", engine.waiting),
        ("kv_cache_usage_perc", "gauge", "Share of blocks held or reserved, 1 is all.", usage),
        ("num_preemptions_total", "counter", "Requests put back to make room.", 0),
        ("prefix_cache_queries_total", "counter", "Prompt tokens looked up.", looked_up),
        ("prefix_cache_hits_total", "counter", "Prompt tokens found.", found),
    )  # fmt: skip
    escaped = model.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    labels = f'{{engine="0",model_name="{escaped}"}}'
    page = "".join(
        f"# HELP vllm:{name} {meaning}\n# TYPE vllm:{name} {kind}\n"
        f"vllm:{name}{labels} {float(value)!r}\n"
        for name, kind, meaning, value in figures
    )
    return page.encode()
