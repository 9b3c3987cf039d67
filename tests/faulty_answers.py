"""What a server may do wrong, or merely differently: to test what a client survives.

A ``FaultPlan`` is asked once for each completion request. Its answer is a ``Fault``: a ``Shape``,
how the stream differs from the usual one while being a whole answer, and at most one ``Break``,
what happens to it and where. ``faulty`` makes a hook of ``running_server`` of a plan. What the
simulator says are events, (bytes, tokens): functions shape them, and ``FaultyWire`` writes them
until the break. A response that is not streamed breaks only before its headers, and only when it is
all there.
"""

import asyncio
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Literal, Protocol

import orjson

from agentx_replay.simulator.answer_stream import DONE, Events, Wire
from agentx_replay.simulator.http_connection import (
    LAST_CHUNK,
    chunk,
    error_body,
    http_response,
    stream_head,
)
from agentx_replay.simulator.server import Altered, Hook

Json = dict[str, Any]
Event = tuple[bytes, int]
Write = tuple[bytes, list[int]]
"""Bytes, and the tokens of each event with tokens that ends in them."""

_BROKEN = "the simulator broke this response on purpose"
_YEAR_2100_S = 4_102_444_800
_GZIP_WINDOW_BITS = 31


class Act(Enum):
    """What happens at the point of a break."""

    RESET = auto()
    """The connection is reset (RST), what was not yet sent is lost."""
    CLOSE = auto()
    """The connection is closed in the middle (FIN)."""
    STALL = auto()
    """Nothing is sent for ``stall_s``, then everything that waited, and the rest."""
    STATUS = auto()
    """Another HTTP status is answered; only ``BEFORE_HEADERS``."""
    ERROR_EVENT = auto()
    """An ``event: error``, and the response ends."""
    ERROR_OBJECT = auto()
    """An error object as data, ``[DONE]``, and the response ends, all inside a 200."""
    GARBAGE = auto()
    """An event whose data is not JSON takes the place of the rest, and the response ends."""


class Point(Enum):
    """Where in the response it happens."""

    BEFORE_HEADERS = auto()
    BEFORE_FIRST_TOKEN = auto()
    BETWEEN_EVENTS = auto()
    """After ``after_events`` events with tokens, where another follows."""
    INSIDE_EVENT = auto()
    """Half way through the event with tokens that comes after ``after_events`` others."""
    AFTER_LAST_TOKEN = auto()
    """Before the usage or ``[DONE]``, whichever comes first."""
    AFTER_DONE = auto()
    """When all is sent but the end of the HTTP body."""


@dataclass(frozen=True, slots=True)
class Break:
    """One thing that goes wrong. ``retry_after_s`` goes with a ``status``, ``words`` with that and
    with errors.
    """

    act: Act
    at: Point
    after_events: int = 1
    stall_s: float = 0.0
    status: int = 503
    retry_after_s: int | None = None
    words: str = _BROKEN


@dataclass(frozen=True, slots=True)
class Shape:
    """How a stream may differ and still be a whole answer.

    ``role``: an event of its own with the first token, an event of its own at once, an event of
    its own with null content, or inside the first token's event. ``delta``: where the words are;
    ``empty`` means empty content for every token. ``usage``: in a last event where asked for,
    never, or in every event. ``steps_per_event`` merges the tokens of several steps (the first
    event's too). ``events_per_write`` joins events into one write; ``sheared`` ends every write
    in the middle of an event. ``tokens_withheld`` stops that many tokens short of what was asked.
    ``odd_fields`` adds fields no specification knows and a ``created`` in the year 2100. ``pings``
    are events before every event, ``called`` the content type, ``finish`` the last finish reason.
    Usage of ``zeros`` is one in every event that tells nothing but in the last. An ``unended`` body
    never ends. ``coding`` is one that the head claims, and the body does not have.
    """

    role: Literal["first_token", "at_once", "null_content", "merged"] = "first_token"
    delta: Literal["content", "reasoning_content", "reasoning", "empty"] = "content"
    usage: Literal["asked", "never", "every", "zeros"] = "asked"
    done: bool = True
    line_end: Literal["\n", "\r\n"] = "\n"
    comments: bool = False
    steps_per_event: int = 1
    events_per_write: int = 1
    sheared: bool = False
    gzip: bool = False
    tokens_withheld: int = 0
    odd_fields: bool = False
    pings: bool = False
    called: str = "text/event-stream"
    finish: str = "length"
    unended: bool = False
    coding: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """How one response differs from the right one."""

    shape: Shape = Shape()
    breaks: Break | None = None


class FaultPlan(Protocol):
    """Choose how the answer to each completion request differs."""

    def on_request(self, number: int, body: bytes) -> Fault | None:
        """Return the fault of request ``number`` (from 0, in order of arrival), None for none."""


def faulty(plan: FaultPlan) -> Hook:
    """Return the hook of a server that does what ``plan`` says."""

    def altered(number: int, body: bytes) -> Altered | None:
        fault = plan.on_request(number, body)
        if fault is None:
            return None
        return Altered(asked(fault.shape, body), partial(FaultyWire, fault))

    return altered


def asked(shape: Shape, body: bytes) -> bytes:
    """Return the request whose usual answer has the usage and the tokens of the shape."""
    if shape.usage == "asked" and not shape.tokens_withheld:
        return body
    request = orjson.loads(body)
    if shape.usage != "asked":
        every = {**request.get("stream_options", {}), "continuous_usage_stats": True}
        request["stream_options"] = {} if shape.usage == "never" else every
    for limit in {"max_tokens", "max_completion_tokens"} & request.keys():
        request[limit] = max(1, request[limit] - shape.tokens_withheld)
    return orjson.dumps(request)


class Shaping:
    """The usual events of a response in, those of a shape out."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._role_is_due = shape.role == "merged"
        self._unsaid: list[tuple[Json, int]] = []

    def begun(self) -> list[Event]:
        """Return what is said before the first token is there."""
        role = Events("chatcmpl-at-once", "simulated", int(time.time()), chat=True).role()
        return [(self._lines(role), 0)] if self._shape.role == "at_once" else []

    def event(self, payload: bytes, tokens: int) -> list[Event]:
        """Return what is said in place of one usual event."""
        if payload == DONE:
            return [(self._lines(DONE), 0)] if self._shape.done else []
        told = orjson.loads(payload.removeprefix(b"data: "))
        if not tokens:
            is_role = bool(told["choices"])
            moved = is_role and self._shape.role in ("at_once", "merged")
            return [] if moved else [self._reworded(told, 0)]
        self._unsaid.append((told, tokens))
        is_last = told["choices"][0]["finish_reason"] is not None
        if len(self._unsaid) < self._shape.steps_per_event and not is_last:
            return []
        unsaid, self._unsaid = self._unsaid, []
        return [self._reworded(*merged(unsaid))]

    def _reworded(self, told: Json, tokens: int) -> Event:
        shape = self._shape
        for choice in told["choices"]:
            said, key = _said(choice)
            if not tokens and shape.role == "null_content":
                said[key] = None
            if tokens and shape.delta == "empty":
                said[key] = ""
            elif tokens and shape.delta != "content":
                said[shape.delta] = said.pop(key)
            if tokens and self._role_is_due:
                said["role"] = "assistant"
                self._role_is_due = False
            if choice["finish_reason"] is not None:
                choice["finish_reason"] = shape.finish
        if shape.usage == "zeros" and told["choices"]:
            told["usage"] = {"prompt_tokens": 0, "completion_tokens": 0}
        if shape.odd_fields:
            told |= {"created": _YEAR_2100_S, "x_trace": {"spans": [1, None]}, "choice": "odd"}
        return self._lines(b"data: " + orjson.dumps(told) + b"\n\n"), tokens

    def _lines(self, payload: bytes) -> bytes:
        before = b": still here\n\n" if self._shape.comments else b""
        if self._shape.pings:
            before += b"event: ping\ndata: 2026-01-01 00:00:00.000001\n\n"
        return (before + payload).replace(b"\n", self._shape.line_end.encode())

    def last_words(self, act: Act, said: str) -> list[bytes]:
        """Return the events that end a response early."""
        error = b"data: " + error_body(500, said, "InternalServerError") + b"\n\n"
        words = {
            Act.GARBAGE: [b'data: {"choices": [{"del\n\n'],
            Act.ERROR_EVENT: [b"event: error\n" + error],
            Act.ERROR_OBJECT: [error, *([DONE] if self._shape.done else [])],
        }
        return [self._lines(payload) for payload in words[act]]


def _said(choice: Json) -> tuple[Json, str]:
    """Return where a choice has its words, and under which key."""
    return (choice["delta"], "content") if "delta" in choice else (choice, "text")


def merged(events: list[tuple[Json, int]]) -> tuple[Json, int]:
    """Return several events with tokens as one, which ends and counts as the last does."""
    last, _ = events[-1]
    said, key = _said(last["choices"][0])
    said[key] = "".join(
        words[name] for words, name in (_said(told["choices"][0]) for told, _ in events)
    )
    return last, sum(tokens for _, tokens in events)


def gathered(shape: Shape, frames: list[Event]) -> tuple[Write, list[Event]]:
    """Return frames as one write, and what is kept back of them: half the last where sheared."""
    data = b"".join(frame for frame, _ in frames)
    tokens = [count for _, count in frames if count]
    if not shape.sheared:
        return (data, tokens), []
    frame, count = frames[-1]
    kept = frame[len(frame) - len(frame) // 2 :]
    return (data.removesuffix(kept), tokens[:-1] if count else tokens), [(kept, count)]


class FaultyWire(Wire):
    """A response as a ``Fault`` has it. ``abandon`` stops the generation behind it."""

    def __init__(self, fault: Fault, usual: Wire, abandon: Callable[[], None]) -> None:
        super().__init__(usual.connection, keep_alive=usual.keep_alive, truth=usual.truth)
        self._shape = fault.shape
        self._shaping = Shaping(fault.shape)
        self._break: Break | None = fault.breaks
        self._abandon = abandon
        self._gzip = zlib.compressobj(wbits=_GZIP_WINDOW_BITS) if fault.shape.gzip else None
        self._token_events = 0
        self._frames: list[Event] = []
        self._fresh_frames = 0
        self._held: list[Write] | None = None
        self._over = False

    def whole(self, body: bytes) -> None:
        self._pass(Point.BEFORE_HEADERS)
        self._write(http_response(200, body, keep_alive=self.keep_alive), [])
        self._finish()

    def head(self) -> None:
        self._pass(Point.BEFORE_HEADERS)
        head = stream_head(keep_alive=self.keep_alive)
        head = head.replace(b"text/event-stream; charset=utf-8", self._shape.called.encode())
        coding = self._shape.coding or ("gzip" if self._gzip is not None else "")
        if coding:
            named = f"\r\ncontent-encoding: {coding}\r\n\r\n".encode()
            head = head.replace(b"\r\n\r\n", named)
        self._write(head, [])
        for payload, tokens in self._shaping.begun():
            self._say(payload, tokens)

    def event(self, payload: bytes, tokens: int = 0) -> None:
        for shaped, count in self._shaping.event(payload, tokens):
            self._say(shaped, count)

    def end(self) -> None:
        self._pass(Point.AFTER_LAST_TOKEN)
        self._pass(Point.AFTER_DONE)
        if not self._over:
            self._close_stream()

    def _say(self, payload: bytes, tokens: int) -> None:
        """Write an event, or break before it or inside it."""
        if tokens:
            self._pass(Point.BETWEEN_EVENTS if self._token_events else Point.BEFORE_FIRST_TOKEN)
        elif self._token_events:
            self._pass(Point.AFTER_LAST_TOKEN)
        if self._over:
            return
        frame = self._framed(payload)
        if tokens and self._is_due(Point.INSIDE_EVENT):
            self._flush()
            half = len(frame) // 2
            self._write(frame[:half], [])
            self._pass(Point.INSIDE_EVENT)
            self._write(frame[half:], [tokens])
        else:
            self._gather(frame, tokens)
        self._token_events += bool(tokens)

    def _is_due(self, point: Point) -> bool:
        due = self._break
        if due is None or due.at is not point or self._over:
            return False
        counts = point in (Point.BETWEEN_EVENTS, Point.INSIDE_EVENT)
        return not counts or due.after_events == self._token_events

    def _pass(self, point: Point) -> None:
        """Break here if here is where the response breaks."""
        due = self._break
        if due is None or not self._is_due(point):
            return
        self._break = None
        self._flush()
        if due.act is Act.STALL:
            self._held = []
            self._stall_until(time.monotonic() + due.stall_s)
        else:
            self._end_early(due)
            self._over = True
            self._abandon()

    def _stall_until(self, end_s: float) -> None:
        """Resume at ``end_s`` and no sooner: a loop's timer may fire a millisecond early."""
        left_s = end_s - time.monotonic()
        if left_s > 0.0:
            asyncio.get_running_loop().call_later(left_s, self._stall_until, end_s)
        else:
            self._resume()

    def _end_early(self, due: Break) -> None:
        if due.act is Act.RESET:
            self.connection.reset()
        elif due.act is Act.CLOSE:
            self.connection.close()
        elif due.act is Act.STATUS:
            self._write(status_response(due, keep_alive=self.keep_alive), [])
            self._finish()
        else:
            for payload in self._shaping.last_words(due.act, due.words):
                self._write(self._framed(payload), [])
            self._close_stream()

    def _framed(self, payload: bytes) -> bytes:
        if self._gzip is not None:
            payload = self._gzip.compress(payload) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        return chunk(payload)

    def _gather(self, frame: bytes, tokens: int) -> None:
        """Write when enough events are together; a sheared stream keeps the last half back."""
        self._frames.append((frame, tokens))
        self._fresh_frames += 1
        if self._fresh_frames >= self._shape.events_per_write:
            write, self._frames = gathered(self._shape, self._frames)
            self._fresh_frames = 0
            self._write(*write)

    def _flush(self) -> None:
        frames, self._frames, self._fresh_frames = self._frames, [], 0
        if frames:
            self._write(*gathered(Shape(), frames)[0])

    def _close_stream(self) -> None:
        self._flush()
        if self._shape.unended:
            self._over = True
            return
        trailer = b"" if self._gzip is None else chunk(self._gzip.flush())
        self._write(trailer + LAST_CHUNK, [])
        self._finish()

    def _finish(self) -> None:
        if not self._over and self._held is None:
            self.connection.finish(keep_alive=self.keep_alive)
        self._over = True

    def _write(self, data: bytes, tokens: list[int]) -> None:
        """Write now, or when the stall is over; an event counts as sent with its last byte."""
        if self._over:
            return
        if self._held is None:
            self._send(data, tokens)
        else:
            self._held.append((data, tokens))

    def _send(self, data: bytes, tokens: list[int]) -> None:
        if self.truth is not None:
            for count in tokens:
                self.truth.sent(time.monotonic_ns(), count)
        self.connection.send(data)

    def _resume(self) -> None:
        held, self._held = self._held or [], None
        for write in held:
            self._send(*write)
        if self._over:
            self.connection.finish(keep_alive=self.keep_alive)


def status_response(due: Break, *, keep_alive: bool) -> bytes:
    """Return a whole answer with the status of a break."""
    body = error_body(due.status, due.words, "InternalServerError")
    response = http_response(due.status, body, keep_alive=keep_alive)
    if due.retry_after_s is None:
        return response
    return response.replace(b"\r\n\r\n", b"\r\nretry-after: %d\r\n\r\n" % due.retry_after_s, 1)
