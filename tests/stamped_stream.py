"""A completion stream whose pieces are given with their times, for tests of what they mean."""

from agentx_replay.endpoint.completion_stream import CompletionStream, ParsedStream
from agentx_replay.endpoint.poll_times import PollInterval
from agentx_replay.endpoint.server_sent_events import Event
from agentx_replay.endpoint.timing import ReadTimes


class StampedStream:
    """Each piece, or event, is a socket read of its own, made in time at ``at_ns``."""

    def __init__(self, *, keeps_answer: bool = False) -> None:
        self.stream = CompletionStream(keeps_answer=keeps_answer)
        self._times = ReadTimes(stamped=False, sent_ns=0)

    def _place(self, at_ns: int) -> int:
        self._times.stamps.append(at_ns)
        self._times.intervals.append(PollInterval(floor_ns=at_ns, offset_ns=0, end_ns=at_ns))
        return len(self._times.stamps) - 1

    def feed(self, piece: bytes, at_ns: int) -> None:
        """Feed a piece."""
        self.stream.feed(piece, self._place(at_ns))

    def read(self, event: Event, at_ns: int) -> None:
        """Read an event."""
        self.stream.read(event, self._place(at_ns))

    def end(self) -> None:
        """Say that the stream ended as it should."""
        self.stream.end(len(self._times.stamps) - 1)

    def result(self) -> ParsedStream:
        """Return what all that came means."""
        return self.stream.result(self._times)
