"""A completion stream whose pieces are given with their times, for tests of what they mean."""

import numpy as np

from agentx_replay.endpoint.completion_stream import CompletionStream, ParsedStream
from agentx_replay.endpoint.server_sent_events import Event
from agentx_replay.endpoint.timing import ReadTimes


def prompt_reads(stamps_ns: list[int]) -> ReadTimes:
    """Return the times of reads that a process stamped without delay, as its ticks say."""
    times = ReadTimes(stamped=False, sent_ns=0, stamps=bytearray(np.array(stamps_ns, np.int64)))
    ticks = [tick for at_ns in stamps_ns for tick in (at_ns, at_ns, at_ns + 1)]
    times.ticks_ns = np.array(sorted(ticks), np.int64)
    return times


class StampedStream:
    """Each piece, or event, is a socket read of its own, made in time at ``at_ns``."""

    def __init__(self, *, keeps_answer: bool = False) -> None:
        self.stream = CompletionStream(keeps_answer=keeps_answer)
        self._stamps_ns: list[int] = []

    def _place(self, at_ns: int) -> int:
        self._stamps_ns.append(at_ns)
        return len(self._stamps_ns) - 1

    def feed(self, piece: bytes, at_ns: int) -> None:
        """Feed a piece."""
        self.stream.feed(piece, self._place(at_ns))

    def read(self, event: Event, at_ns: int) -> None:
        """Read an event."""
        self.stream.read(event, self._place(at_ns))

    def end(self) -> None:
        """Say that the stream ended as it should."""
        self.stream.end(len(self._stamps_ns) - 1)

    def result(self) -> ParsedStream:
        """Return what all that came means."""
        return self.stream.result(prompt_reads(self._stamps_ns))
