"""Understanding response bodies between reads, in slices, so that no parse delays a stamp.

The socket callback only keeps raw bytes and stamps; closed stretches of them (segments) come
here. Work is done in steps of a few KiB, for at most half a millisecond at a time, and only
when the loop has polled its sockets in between. How many raw bytes wait is bounded; beyond the
bound a segment is parsed at once, which may delay stamps and is counted.
Not for: what bodies mean (chunks.py), or when a response ends (connection.py).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from agentx_replay.endpoint.alike import Alike, alike_of
from agentx_replay.endpoint.chunks import ChunkReader, ParsedStream
from agentx_replay.endpoint.decode import Decoder, UndecodableError
from agentx_replay.endpoint.framing import Spans
from agentx_replay.endpoint.sse import Event, EventSplitter, EventTooLargeError

SLICE_NS = 500_000
SEGMENT_BYTES = 16_384
MAX_HELD_BYTES = 64 * 1024 * 1024
LIVE_PARSE_BYTES = 256 * 1024
MAX_TEXT_BYTES = 4_000_000
_STEP_BYTES = 4_096
_LEARN_EVERY = 8
_GOLDEN_RATIO = 0.618_033_988_749_895


@dataclass(frozen=True, slots=True)
class Segment:
    """A closed stretch of one response as it came from the socket.

    Read k ended at ``offsets[k]`` bytes from the segment's start and was stamped ``stamps[k]``;
    ``spans`` is where the body lies between framing.
    """

    raw: bytes
    offsets: list[int]
    stamps: list[int]
    spans: Spans

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield the body piece by piece, each with the stamp of the read that it ended in."""
        raw, edges = self.raw, iter(self.spans)
        reads = zip(self.offsets, self.stamps, strict=True)
        offset, stamp = next(reads, (0, 0))
        for start, end in zip(edges, edges, strict=True):
            at = start
            while offset < end:
                if at < offset:
                    yield raw[at:offset], stamp
                    at = offset
                offset, stamp = next(reads)
            if at < end:
                yield raw[at:end], stamp


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A response body, understood: ``stream`` of an event stream, else its ``text``.

    ``too_large`` is whether it went past a bound and was given up there.
    """

    stream: ParsedStream | None = None
    text: bytes = b""
    too_large: bool = False
    malformed: str | None = None


class Sink(Protocol):
    """What reads a decoded body, piece by piece.

    ``finished``: nothing that may still come matters, for it is too large, or an error.
    """

    too_large: bool
    finished: bool

    def feed(self, piece: bytes, stamp_ns: int) -> None:
        """Take the next piece, stamped with the read that completed it."""

    def body(self, *, complete: bool) -> Body:
        """Return the whole; ``complete`` is whether it ended as its framing said."""


class EventSink:
    """An event stream; an error of the server is left to end by itself."""

    __slots__ = ("_alike", "_last_stamp_ns", "_learn_at", "_reader", "_splitter", "finished",
                 "too_large")  # fmt: skip

    def __init__(self) -> None:
        self._splitter = EventSplitter()
        self._reader = ChunkReader()
        self._alike: Alike | None = None
        self._learn_at = 1
        self._last_stamp_ns = 0
        self.too_large = False
        self.finished = False

    def feed(self, piece: bytes, stamp_ns: int) -> None:
        """Read the events that the piece completes."""
        self._last_stamp_ns = stamp_ns
        alike = self._alike
        if alike is not None and not self._splitter.carry and alike.holds(piece):
            self._reader.read_text(stamp_ns, alike.text(piece), reasoning=alike.reasoning)
            return
        try:
            events = self._splitter.feed(piece)
        except EventTooLargeError:
            self.too_large = self.finished = True
            return
        self._read(events)
        if self._reader.over:
            self._alike = None
            self.finished = self._reader.malformed is not None
        elif self._reader.events >= self._learn_at and len(events) == 1:
            # Soon at first, for a role may come alone; not from each, for each may differ.
            self._learn_at += min(self._reader.events, _LEARN_EVERY)
            self._alike = alike_of(piece) or alike

    def _read(self, events: list[Event]) -> None:
        for event in events:
            self._reader.read(event, self._last_stamp_ns)

    def body(self, *, complete: bool) -> Body:
        """Return the stream; a last event without its blank line counts only where complete."""
        if complete and not self.too_large:
            self._read(self._splitter.rest())
        return Body(stream=self._reader.result(), too_large=self.too_large)


class TextSink:
    """Any other body: an error, or a plain answer."""

    __slots__ = ("_text", "finished", "too_large")

    def __init__(self) -> None:
        self._text = bytearray()
        self.too_large = False
        self.finished = False

    def feed(self, piece: bytes, stamp_ns: int) -> None:  # noqa: ARG002 (a sink's signature)
        """Keep the piece."""
        self._text += piece
        self.too_large = self.finished = len(self._text) > MAX_TEXT_BYTES

    def body(self, *, complete: bool) -> Body:  # noqa: ARG002 (a sink's signature)
        """Return what came."""
        return Body(text=bytes(self._text), too_large=self.too_large)


class BodyJob:
    """One response's body on its way from segments to a ``Body``."""

    __slots__ = ("_complete", "_decoder", "_done", "_malformed", "_segments", "_sink", "_steps",
                 "queued", "waiting_bytes")  # fmt: skip

    def __init__(self, decoder: Decoder, sink: Sink) -> None:
        self._decoder = decoder
        self._sink = sink
        self._segments: deque[Segment] = deque()
        self._steps = self._work()
        self._malformed: str | None = None
        self._complete = False
        self._done: Callable[[Body], None] | None = None
        self.waiting_bytes = 0
        self.queued = False

    @property
    def finished(self) -> bool:
        """Whether the rest of the body does not matter any more."""
        return self._malformed is not None or self._sink.finished

    def add(self, segment: Segment) -> None:
        """Take the next segment."""
        self._segments.append(segment)
        self.waiting_bytes += len(segment.raw)

    def close(self, done: Callable[[Body], None], *, complete: bool) -> None:
        """Say that no segment follows; ``done`` is called with the body when all is read."""
        self._done = done
        self._complete = complete

    def step(self) -> bool:
        """Do one piece of work; False when there is none left for now."""
        return next(self._steps, False)

    def _work(self) -> Iterator[bool]:
        """Read until the body has been told. Then it is over: a generator that waited for more
        would hold the job, and the job it, in a cycle that no collector may find during a run.
        """
        while True:
            while self._segments:
                segment = self._segments.popleft()
                yield from self._read(segment)
                self.waiting_bytes -= len(segment.raw)
            if self._done is not None:
                self._tell(self._done)
                return
            yield False

    def _read(self, segment: Segment) -> Iterator[bool]:
        """Read a segment, stopping for breath every few KiB; what does not matter is skipped."""
        pieces, sink, done_bytes = self._decoder.pieces, self._sink, 0
        feed = sink.feed
        if self._malformed is not None:
            return
        try:
            for data, stamp_ns in segment.pieces():
                for piece in pieces(data):
                    if sink.finished:  # asked for each: a read can inflate to a thousand pieces
                        return
                    feed(piece, stamp_ns)
                    done_bytes += len(piece)
                    if done_bytes >= _STEP_BYTES:
                        done_bytes = 0
                        yield True
        except UndecodableError as error:
            self._malformed = str(error)

    def _tell(self, done: Callable[[Body], None]) -> None:
        body = self._sink.body(complete=self._complete)
        done(Body(body.stream, body.text, body.too_large, self._malformed))


class ParseQueue:
    """All bodies of one process that wait to be read, first come, first served.

    ``held_bytes`` is the raw bytes in segments not read yet (an open response holds up to one
    unfinished segment more); ``parsed_at_once`` how often the bound forced a parse on the spot.
    """

    __slots__ = (
        "_jobs",
        "_limit_bytes",
        "_loop",
        "_now_ns",
        "_phase",
        "held_bytes",
        "parsed_at_once",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int = MAX_HELD_BYTES) -> None:
        self._loop = loop
        self._limit_bytes = limit_bytes
        self._now_ns = time.monotonic_ns
        self._jobs: deque[BodyJob] = deque()
        self._phase = 0.0
        self.held_bytes = 0
        self.parsed_at_once = 0

    def first_segment_bytes(self) -> int:
        """Return how long a new response's first segment may grow: another share of a whole one
        for each, evenly spread. Streams that grow in step, as an engine's do, would otherwise
        all close a segment at the same token, and the last of them be stamped behind all that.
        """
        self._phase = (self._phase + _GOLDEN_RATIO) % 1.0
        return 1 + int(self._phase * SEGMENT_BYTES)

    def add(self, job: BodyJob, segment: Segment) -> None:
        """Hold a segment of a live response; read it when there are enough of them."""
        job.add(segment)
        self.held_bytes += len(segment.raw)
        if self.held_bytes > self._limit_bytes:
            self.parsed_at_once += 1
            while self._step(job):
                pass
        elif job.waiting_bytes >= LIVE_PARSE_BYTES:
            self.push(job)

    def push(self, job: BodyJob) -> None:
        """Have the job's segments read as soon as the loop has polled its sockets."""
        if job.queued:
            return
        if not self._jobs:
            self._loop.call_soon(self._run)
        job.queued = True
        self._jobs.append(job)

    def _step(self, job: BodyJob) -> bool:
        before = job.waiting_bytes
        more = job.step()
        self.held_bytes -= before - job.waiting_bytes
        return more

    def _run(self) -> None:
        """Read for one slice, then let the loop poll before the next."""
        until_ns = self._now_ns() + SLICE_NS
        while self._now_ns() < until_ns:
            job = self._jobs[0]
            if self._step(job):
                continue
            job.queued = False
            self._jobs.popleft()
            if not self._jobs:
                return
        self._loop.call_soon(self._run)
