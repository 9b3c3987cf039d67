"""When each recorded request started and ended, under one reading of the recording.

The official harness and the corrected rules read a subagent's times differently; everything
after this module compares the instants made here and never a file's own ``t`` again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from agentx_replay.traces.model import RecordedRequest, Subagent

EPSILON_S = 1e-6
"""Two recorded instants this near are the same one (agentx-harness 1.0.12 uses it throughout)."""


class Timed(NamedTuple):
    """A request with its recorded start and end, in seconds from the session's zero.

    The official harness compares some instants in ms: 100 + 7.34 and 107.34 are the same there and
    not in s.
    """

    request: RecordedRequest
    start_s: float
    end_s: float

    @property
    def start_ms(self) -> float:
        return self.start_s * 1000.0

    @property
    def end_ms(self) -> float:
        return self.start_s * 1000.0 + recorded_duration_s(self.request) * 1000.0


def recorded_order(item: Timed) -> tuple[float, int]:
    """Sort by start, then by place in the file."""
    return item.start_s, item.request.index


def recorded_duration_s(request: RecordedRequest) -> float:
    """Return how long the request took; a missing or negative duration is 0."""
    return max(request.duration_s or 0.0, 0.0)


def timed(request: RecordedRequest, start_s: float) -> Timed:
    return Timed(request, start_s, start_s + recorded_duration_s(request))


def inner_times(subagent: Subagent, *, corrected: bool) -> tuple[Timed, ...]:
    """Return a subagent's requests with their starts, in file order.

    Officially a ``t`` before the marker's counts from the marker and any other is absolute, so a
    late relative one is taken for absolute. ``corrected`` takes the reader's reading, which
    decides once for the whole file.
    """
    if corrected:
        return tuple(timed(request, request.start_s) for request in subagent.requests)
    marker_s = subagent.marker_t_s
    return tuple(
        timed(request, request.t_s + (marker_s if request.t_s + EPSILON_S < marker_s else 0.0))
        for request in subagent.requests
    )


def spawn_s(subagent: Subagent, *, corrected: bool) -> float:
    """Return when the subagent was started: the marker's ``t``, or the reader's reading of it."""
    return subagent.spawn_s if corrected else subagent.marker_t_s


def end_s(subagent: Subagent, inner: Iterable[Timed], *, corrected: bool) -> float:
    """Return when the subagent ended: spawn plus duration, or without one its last request's end.

    ``inner`` has at least one request. A negative duration is 0.
    """
    if subagent.duration_s is None:
        return max(item.end_s for item in inner)
    return spawn_s(subagent, corrected=corrected) + max(subagent.duration_s, 0.0)
