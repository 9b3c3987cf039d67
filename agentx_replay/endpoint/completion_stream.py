"""What the events of a streamed completion mean: token events, usage, finish, error.

Read after the response has ended, or from the part of a long one that has come. The rules are
those of the metric definitions: what counts as a token event is decided once the whole response is
known. Not for: bytes and lines (server_sent_events.py), when events arrived (timing.py), or what a
failure is called in the records (outcome.py).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from agentx_replay.endpoint.server_sent_events import (
    Alike,
    Event,
    EventSplitter,
    EventTooLargeError,
    alike_of,
)
from agentx_replay.endpoint.timing import ReadTimes, event_times, gathered_reads, late_events
from agentx_replay.prompts.prompt import Answer

Text = str | bytes
"""A decoded text, or the inside of a JSON string as it came, in ASCII."""

_UNKNOWN = -1
_NOTHING, _EMPTY, _TEXT, _USAGE_ONLY, _REASONING = range(5)
_SAYING = (_TEXT, _REASONING)
_LEARN_EVERY = 8
_REASONINGS = ("reasoning_content", "reasoning")
_TEXT_FIELDS = ("content", *_REASONINGS, "tool_calls")
_COUNTS = (("", "prompt_tokens"), ("", "completion_tokens"),
           ("prompt_tokens_details", "cached_tokens"),
           ("completion_tokens_details", "reasoning_tokens"))  # fmt: skip
"""Where a usage has its counts: in which object of it, and under which name."""

_MAX_QUOTED = 80
_OURS = (b"", b"message")
"""Names of events whose data is the completion's; others are passed over if they are no JSON."""

_PIECE = re.compile(r"(?:[^\r\n\w]|_)?[^\W\d_]+|\d{1,3}| ?[^\s\w]+[\r\n/]*|_+|\s*[\r\n]+|\s+")
"""A word with the mark or space before it, up to three digits, marks, line ends, spaces: the cuts
that the tokenizers of GPT, Llama 3, Qwen and DeepSeek make before they merge bytes into tokens.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedStream:
    """One response's stream, understood.

    ``arrival_ns``, ``arrival_tokens`` and ``gathered_reads`` are as in ``Response``;
    ``uncertainty_ns`` is how much earlier each token event may have arrived. ``error`` is the text
    of the server's own error, ``malformed`` says why the stream cannot be one, ``done`` is whether
    ``[DONE]`` came. ``passed_over`` is the last event that was no data, ``odd_usage`` a count that
    cannot be one, ``only_text`` the one text of a response without tokens. ``answer`` is what was
    said, where it is kept. What the texts of the token events tell (``event_text_bytes``,
    ``text_pieces``, ``reasoning_pieces``) is as in ``Response``.
    """

    arrival_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    arrival_tokens: NDArray[np.int32] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    malformed: str | None = None
    done: bool = False
    passed_over: str | None = None
    odd_usage: str | None = None
    only_text: str | None = None
    answer: Answer | None = None
    uncertainty_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    late_events: int = 0
    gathered_reads: int = 0
    event_text_bytes: NDArray[np.int32] | None = None
    text_pieces: int | None = None
    reasoning_tokens: int | None = None
    reasoning_pieces: int | None = None


class CompletionStream:
    """Reads a stream's bytes in order, then says the whole: ``feed`` for each piece, ``end`` where
    it ended as its framing said, ``result`` once.

    Events are known by the place of the socket read that completed them. ``too_large`` and
    ``finished`` say that nothing that may still come matters. ``keeps_answer``: what is said is
    kept, too.
    """

    def __init__(self, *, keeps_answer: bool = False) -> None:
        self._splitter = EventSplitter()
        self._alike: Alike | None = None
        self._learn_at = 1
        self._place = 0
        self._places: list[int] = []
        self._kinds = bytearray()
        self._texts: list[Text] = []
        self._told: dict[int, tuple[int, int]] = {}
        self._followed: list[int] = []
        self._answer = AnswerParts() if keeps_answer else None
        self._usage: dict[str, int] = {}
        self._finish: str | None = None
        self.error: str | None = None
        self.malformed: str | None = None
        self.passed_over: str | None = None
        self.odd_usage: str | None = None
        self.done = False
        self.too_large = False

    @property
    def _over(self) -> bool:
        return self.done or self.error is not None or self.malformed is not None

    @property
    def finished(self) -> bool:
        """Whether the rest need not be waited for; an error of the server ends by itself."""
        return self.too_large or self.malformed is not None

    @property
    def alike(self) -> Alike | None:
        """What the next event may have in common with those before; None inside of an event."""
        return None if self._splitter.carry else self._alike

    def take_alike(self, texts: list[bytes], place: int) -> None:
        """Take events that are ``alike``, one a read, the first in the read of that place."""
        kind = _REASONING if self._alike is not None and self._alike.reasoning else _TEXT
        self._places += range(place, place + len(texts))
        self._kinds += bytes((kind,)) * len(texts)
        self._texts += texts

    def feed(self, piece: bytes, place: int) -> None:
        """Read the events that the piece completes, in the read of that place."""
        alike = self.alike
        text = None if alike is None else alike.text_of(piece)
        if text is not None:
            self.take_alike([text], place)
            return
        if self.too_large:
            return
        if self._splitter.carry and place != self._place:
            self._followed.append(self._place)
        self._place = place
        try:
            events = self._splitter.feed(piece)
        except EventTooLargeError:
            self.too_large = True
            return
        for event in events:
            self.read(event, place)
        if self._over:
            self._alike = None
        elif self._answer is None and len(events) == 1 and len(self._places) >= self._learn_at:
            # Soon at first, for a role may come alone; not from each, for each may differ.
            self._learn_at += min(len(self._places), _LEARN_EVERY)
            self._alike = alike_of(piece) or alike

    def end(self, place: int) -> None:
        """Say that the stream ended as it should, in the read of that place: a last event needs no
        blank line then.
        """
        for event in self._splitter.rest():
            self.read(event, place)
        self._followed.append(place)

    def read(self, event: Event, place: int) -> None:
        """Take one event in; what follows an error, a fault or ``[DONE]`` is not looked at."""
        if self._over:
            return
        if event.data.startswith(b"[DONE]"):
            self.done = True
            self._followed.append(place)
            return
        chunk = read_json(event.data)
        if event.name == b"error" or (isinstance(chunk, dict) and is_error(chunk)):
            self.error = error_message(chunk, event.data)
        elif isinstance(chunk, dict):
            self._read_chunk(chunk, place)
        elif event.name in _OURS and event.data.lstrip().startswith(b"{"):
            self.malformed = f"an event that is no JSON object: {_quoted(event.data)}"
        elif event.data.strip():  # a keep-alive in whatever words: pings, times, comments as data
            self.passed_over = _quoted(event.data)

    def _read_chunk(self, chunk: dict[str, Any], place: int) -> None:
        used = self._read_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        kind, ids, text = _USAGE_ONLY, _UNKNOWN, ""
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            kind, ids, text = self._read_choice(choices[0])
        if kind == _USAGE_ONLY and used == _UNKNOWN:
            self._followed.append(place)
            return
        if used != _UNKNOWN or ids != _UNKNOWN:
            self._told[len(self._places)] = used, ids
        self._places.append(place)
        self._kinds.append(kind)
        self._texts.append(text)

    def _read_choice(self, choice: dict[str, Any]) -> tuple[int, int, str]:
        finish = choice.get("finish_reason") or None  # some servers say "" until the end
        if isinstance(finish, str):
            self._finish = finish
        token_ids = choice.get("token_ids")
        ids = len(token_ids) if isinstance(token_ids, list) else _UNKNOWN
        delta = choice.get("delta")
        if isinstance(delta, dict):
            if self._answer is not None:
                self._answer.add(delta)
            kind = _delta_kind(delta, finish)
            return kind, ids, _text_of(delta) if kind in _SAYING else ""
        text = choice.get("text")  # the completions API has it in place of a delta
        if not isinstance(text, str):
            return _NOTHING, ids, ""
        return _TEXT if text else _EMPTY, ids, text

    def _read_usage(self, usage: Any) -> int:
        """Keep the latest usage; return its completion tokens, _UNKNOWN where it has none."""
        if not isinstance(usage, dict):
            return _UNKNOWN
        for holder, name in _COUNTS:
            counts = usage.get(holder) if holder else usage
            value = counts.get(name) if isinstance(counts, dict) else None
            if (count := _count(value)) is not None:
                self._usage[name] = count
            elif value is not None and not holder:
                self.odd_usage = f"{name} {str(value)[:_MAX_QUOTED]}"
        used = _count(usage.get("completion_tokens"))
        return _UNKNOWN if used is None else used

    def result(self, reads: ReadTimes) -> ParsedStream:
        """Return what all events together say, whose reads were made at these times."""
        kinds, places = np.frombuffer(self._kinds, np.int8), np.array(self._places, np.int64)
        saying = (kinds == _TEXT) | (kinds == _REASONING)
        completion = self._usage.get("completion_tokens")
        counts, tokens = self._token_events(kinds, saying, completion)
        lengths = said = thought = None
        if tokens is None and _needs_texts(completion, int(np.count_nonzero(counts))):
            texts = [_decoded(self._texts[event]) for event in np.flatnonzero(counts)]
            lengths = np.array([len(text.encode("utf-8", "replace")) for text in texts], np.int32)
            said = text_pieces(texts)
        if "reasoning_tokens" in self._usage:
            thought = text_pieces(self._texts[at] for at in np.flatnonzero(kinds == _REASONING))
        arrivals_ns, uncertainty_ns = event_times(reads, places, self._followed)
        stream = ParsedStream(
            arrival_ns=arrivals_ns[counts],
            arrival_tokens=tokens,
            finish_reason=self._finish,
            error=self.error,
            malformed=self.malformed,
            done=self.done,
            passed_over=self.passed_over,
            odd_usage=self.odd_usage,
            only_text=self._only_text(saying),
            uncertainty_ns=uncertainty_ns[counts],
            late_events=late_events(reads, uncertainty_ns[counts]),
            event_text_bytes=lengths,
            text_pieces=said,
            reasoning_pieces=thought,
            gathered_reads=gathered_reads(reads, places[counts]),
            prompt_tokens=self._usage.get("prompt_tokens"),
            cached_tokens=self._usage.get("cached_tokens"),
            completion_tokens=completion,
            reasoning_tokens=self._usage.get("reasoning_tokens"),
        )
        answer = self._answer.answer(stream) if self._answer is not None else None
        return stream if answer is None else replace(stream, answer=answer)

    def _only_text(self, saying: NDArray[np.bool_]) -> str | None:
        """Return the text of the only event that has one, None where tokens came, too: so LMDeploy
        says what it refuses.
        """
        said = np.flatnonzero(saying)
        alone = len(said) == 1 and not self._usage.get("completion_tokens")
        return _decoded(self._texts[said[0]]) if alone else None

    def _token_events(
        self, kinds: NDArray[np.int8], saying: NDArray[np.bool_], completion: int | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
        """Return which events are token events and, where the server tells, the tokens in each.

        An event is a token event if the usage grew with it (only where every token event carries
        usage, and it grew with each but the last: a total at the end says nothing of when), if it
        has token ids, or if its delta is not empty; empty deltas count only in a response that has
        no other.
        """
        speaking = saying if saying.any() else kinds == _EMPTY
        told_ids = any(ids > 0 for _, ids in self._told.values())
        if not told_ids and len(self._told) < np.count_nonzero(speaking):
            return speaking, None
        used, ids = np.full((2, len(kinds)), _UNKNOWN, np.int64)
        for at, told in self._told.items():
            used[at], ids[at] = told
        counts, sources = saying | (ids > 0), [ids]
        if speaking.any() and not (used[speaking] == _UNKNOWN).any():
            grown = np.diff(np.maximum.accumulate(np.maximum(used, 0)), prepend=0)
            behind = grown[speaking][:-1] == 0
            empty_all_behind = len(behind) > 0 and bool(behind.all())
            if not (behind.any() if saying.any() else empty_all_behind):
                counts |= grown > 0
                sources.append(grown)
        if not counts.any():
            counts = kinds == _EMPTY
        for each in sources:
            if _tells(each[counts], completion):
                return counts, each[counts].astype(np.int32)
        return counts, None


class AnswerParts:
    """The content of a stream's deltas, to be joined.

    Reasoning and tool calls are left out, as agents and chat templates leave them out of later
    prompts. The tokens of what is left are its share of the token events, and of the completion
    tokens; where the server does not count these, or nothing is left, there is no answer.
    """

    def __init__(self) -> None:
        self._contents: list[str] = []
        self._said_more = False

    def add(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        if isinstance(content, str) and content:
            self._contents.append(content)
        self._said_more = self._said_more or any(map(delta.get, (*_REASONINGS, "tool_calls")))

    def answer(self, stream: ParsedStream) -> Answer | None:
        """Return what was said in the whole stream. Halves of a character that came one by one are
        joined, a half without the other is U+FFFD.
        """
        if not stream.completion_tokens or not self._contents:
            return None
        events = max(len(self._contents), len(stream.arrival_ns))
        tokens = max(1, round(stream.completion_tokens * len(self._contents) / events))
        whole = len(self._contents) == events and not self._said_more
        halves = "".join(self._contents).encode("utf-16-le", "surrogatepass")
        return Answer(halves.decode("utf-16-le", "replace"), tokens, stream.prompt_tokens, whole)


def _delta_kind(delta: dict[str, Any], finish: object) -> int:
    """Return whether a delta carries text, may carry a token without any, or carries none.

    One with a role opens the response, and a bare ``{}`` beside a finish reason closes it: neither
    stands for a token.
    """
    said = delta.get  # spelt out: this is done for every token
    if said("content") or said("tool_calls"):
        return _TEXT
    if said("reasoning_content") or said("reasoning"):
        return _REASONING
    if said("role") is not None:
        return _NOTHING
    if finish is not None and all(said(name) is None for name in _TEXT_FIELDS):
        return _NOTHING
    return _EMPTY


def _text_of(delta: dict[str, Any]) -> str:
    """Return all text in a delta: content, reasoning, and names and arguments of tool calls."""
    parts = [delta.get(name) for name in (*_REASONINGS, "content")]
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            parts += function.get("name"), function.get("arguments")
    return "".join(part for part in parts if isinstance(part, str))


def _tells(tokens: NDArray[np.int64], completion: int | None) -> bool:
    """Whether per-event counts are known for every event and agree with the total, if given."""
    if not len(tokens) or (tokens == _UNKNOWN).any():
        return False
    return completion is None or int(tokens.sum()) == completion


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**31 else None


def _quoted(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"


# --- texts, where no usage says how many tokens an event has --------------------------------------


def _needs_texts(completion: int | None, events: int) -> bool:
    """Whether completion tokens exceed token events by over 2 and over 1 %: some event has several,
    or some token came in none.
    """
    return completion is not None and completion > events + 2 and completion > 1.01 * events


def text_pieces(texts: Iterable[Text]) -> int:
    """Return how many pieces the texts have, each text by itself.

    No token spans two pieces, so it is the least number of tokens that can have said the texts.
    """
    return sum(len(_PIECE.findall(_decoded(text))) for text in texts)


def _decoded(text: Text) -> str:
    return text if isinstance(text, str) else str(orjson.loads(b'"' + text + b'"'))


# --- a server's JSON, and its errors --------------------------------------------------------------


def read_json(data: bytes) -> Any:
    """Return what a server's JSON says, None where it is none.

    An object that orjson refuses is read once more: engines that turn tokens into text one by one
    may send half of an emoji, escaped, and RFC 8259 (section 8.2) lets it stand; others say NaN.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if data.lstrip()[:1] not in (b"{", b"["):
            return None
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def is_error(body: dict[str, Any]) -> bool:
    return bool(body.get("error")) or body.get("object") == "error"


def error_message(body: object, raw: bytes) -> str:
    """Return the server's own words for an error, in any of the shapes seen, else the body."""
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        for name in ("message", "detail", "error", "type"):
            if isinstance(inner.get(name), str):
                # By some fields some servers alone tell what kind of error it is.
                kinds = [str(inner[kind]) for kind in ("type", "code", "param")
                         if inner.get(kind) is not None]  # fmt: skip
                return f"{inner[name]} ({', '.join(kinds)})" if kinds else str(inner[name])
    if isinstance(inner, str):
        return inner
    return raw.decode("utf-8", "replace").strip()
