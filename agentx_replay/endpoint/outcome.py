"""What a response amounts to: one status, one category, a short text.

Pure decisions from what a connection saw to the ``Response`` that is recorded.
Not for: I/O, or the meaning of single events (completion_stream.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from agentx_replay.endpoint.completion_stream import ParsedStream, error_message, read_json
from agentx_replay.endpoint.connection import Ending, Exchange
from agentx_replay.endpoint.http_response import MAX_TEXT_BYTES, Body
from agentx_replay.endpoint.server_sent_events import MAX_EVENT_BYTES
from agentx_replay.endpoint.server_words import overflows, rate_limited
from agentx_replay.replay.ports import ErrorCategory, Response, Status
from agentx_replay.secret_texts import without_secrets

MAX_ERROR_TEXT = 500
_MAX_ESCAPED = 16
"""Characters that an escaped one may take: a secret that begins within the text is found whole."""

_REFUSALS = (400, 413, 422)
"""Statuses of which the words alone tell what is refused."""

_ABORTED = frozenset({"abort", "aborted", "cancel", "cancelled", "canceled", "error"})
"""Finish reasons of a response that its server gave up: vLLM and SGLang say abort, vLLM error,
TensorRT-LLM cancelled."""

_CATEGORIES = {
    400: ErrorCategory.BAD_REQUEST,
    401: ErrorCategory.UNAUTHORIZED,
    403: ErrorCategory.UNAUTHORIZED,
    404: ErrorCategory.NOT_FOUND,
    413: ErrorCategory.BAD_REQUEST,
    422: ErrorCategory.BAD_REQUEST,
    429: ErrorCategory.RATE_LIMITED,
}
_OK = 200
_SERVER_ERRORS = 500

_RECORDED = {each.name for each in fields(Response)} - {"finish_reason", "answer"}
_OF_EXCHANGE = _RECORDED & {each.name for each in fields(Exchange)}
_OF_STREAM = _RECORDED & {each.name for each in fields(ParsedStream)}
"""What a record has as the exchange and the stream have it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no usable response."""

    status: Status
    category: ErrorCategory | None
    text: str | None


def response_of(exchange: Exchange, secrets: Sequence[str]) -> Response:
    """Return the record of an exchange that is done. ``secrets`` never show in its text."""
    failure = failure_of(exchange) or Failure(Status.OK, None, None)
    stream = (exchange.body and exchange.body.stream) or ParsedStream()
    ok, uncertainty_ns = failure.status is Status.OK, stream.uncertainty_ns
    return Response(
        **{name: getattr(exchange, name) for name in _OF_EXCHANGE},
        **{name: getattr(stream, name) for name in _OF_STREAM},
        status=failure.status,
        finish_reason=stream.finish_reason and short(stream.finish_reason, secrets),
        error_category=failure.category,
        error_text=failure.text and short(failure.text, secrets),
        answer=stream.answer if ok else None,
        first_token_uncertainty_ns=int(uncertainty_ns[0]) if len(uncertainty_ns) else 0,
        last_token_uncertainty_ns=int(uncertainty_ns[-1]) if len(uncertainty_ns) else 0,
    )


def failure_of(exchange: Exchange) -> Failure | None:
    """Return why an exchange failed, None where it did not. What we did ourselves comes first."""
    body = exchange.body or Body()
    if exchange.ending is Ending.CUT:
        return Failure(Status.CUT, None, None)
    if exchange.ending is Ending.TIMEOUT:
        return _failed(ErrorCategory.TIMEOUT, "no end within the time limit that was asked for")
    if body.too_large:
        limit = MAX_TEXT_BYTES if body.stream is None else MAX_EVENT_BYTES
        return _failed(ErrorCategory.TOO_LARGE, f"more than {limit} bytes without an end")
    fault = body.malformed or (exchange.fault if exchange.ending is Ending.MALFORMED else None)
    if fault is not None:
        return _failed(ErrorCategory.MALFORMED, fault)
    if exchange.http_status is not None and exchange.http_status != _OK:
        return _http_failure(exchange.http_status, exchange.headers, body.text)
    if body.stream is not None:
        return _stream_failure(body.stream, exchange)
    return _lost(exchange) if exchange.ending is Ending.LOST else _plain_failure(body.text)


def _stream_failure(stream: ParsedStream, exchange: Exchange) -> Failure | None:
    """A stream is whole when it says how it finished; what is lost after [DONE] is no loss."""
    if stream.error is not None:
        return _server_error(stream.error)
    if stream.malformed is not None:
        return _failed(ErrorCategory.MALFORMED, stream.malformed)
    if exchange.ending is Ending.LOST and not stream.done:
        return _lost(exchange)
    if stream.finish_reason is None:
        what = "the stream ended without a finish reason"
        passed = stream.passed_over
        return _failed(
            ErrorCategory.TRUNCATED, f"{what} (its last words: {passed})" if passed else what
        )
    if stream.finish_reason.lower() in _ABORTED:
        words = f": {stream.only_text}" if stream.only_text else ""
        return _server_error(
            f"the server gave the response up (finish reason {stream.finish_reason}){words}"
        )
    return None


def _plain_failure(text: bytes) -> Failure:
    """A success that is no stream: the server's error, or an answer in one piece."""
    answer = read_json(text)
    if isinstance(answer, dict) and (answer.get("error") or answer.get("object") == "error"):
        return _server_error(error_message(answer, text))
    return _failed(ErrorCategory.MALFORMED, "the server answered in one piece, not as a stream")


def _server_error(text: str) -> Failure:
    if overflows(text):
        return Failure(Status.OVERFLOW, ErrorCategory.CONTEXT_OVERFLOW, text)
    category = ErrorCategory.RATE_LIMITED if rate_limited(text) else ErrorCategory.STREAM_ERROR
    return _failed(category, text)


def _lost(exchange: Exchange) -> Failure:
    what = "the connection was closed before the response ended"
    if exchange.first_byte_ns is None:
        what = "the connection was closed without a response"
    return _failed(ErrorCategory.RESET, f"{what} ({exchange.fault})" if exchange.fault else what)


def _http_failure(status: int, headers: dict[bytes, bytes], body: bytes) -> Failure:
    text = f"HTTP {status}: {error_message(read_json(body), body)}".rstrip(": ")
    for name in ("Retry-After", "Location"):
        if value := headers.get(name.lower().encode()):
            text = f"{text} ({name}: {value.decode('latin-1')})"
    words = body.decode("utf-8", "replace")
    if status in _REFUSALS and overflows(words):
        return Failure(Status.OVERFLOW, ErrorCategory.CONTEXT_OVERFLOW, text)
    if status in _REFUSALS and rate_limited(words):
        return _failed(ErrorCategory.RATE_LIMITED, text)
    if status >= _SERVER_ERRORS:
        return _failed(ErrorCategory.SERVER_ERROR, text)
    return _failed(_CATEGORIES.get(status, ErrorCategory.HTTP), text)


def short(text: str, secrets: Sequence[str] = ()) -> str:
    """Return a text fit for a record: one line, bounded, no half characters, the secrets out."""
    text = text.encode("utf-8", "replace").decode()
    longest = max(map(len, secrets), default=0)
    text = " ".join(text.split())[: MAX_ERROR_TEXT + longest * _MAX_ESCAPED]
    text = without_secrets(text, secrets)
    return text if len(text) <= MAX_ERROR_TEXT else text[: MAX_ERROR_TEXT - 1] + "…"


def _failed(category: ErrorCategory, text: str) -> Failure:
    return Failure(Status.FAILED, category, text)
