"""The measured window, and which responses belong to it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.responses import Floats, Mask, Requests, Responses

_NS = 1_000_000_000
MEASURED_STATUSES = ("ok", "length_mismatch")
"""How a response ends that is in the metrics: a length mismatch is counted, and measured."""


@dataclass(frozen=True, slots=True)
class Window:
    """[``open_ns``, ``close_ns``) since the point's origin; ``nominal_s`` is what the scenario
    asked for, and longer where the window was closed early.
    """

    open_ns: int
    close_ns: int
    nominal_s: float

    @property
    def length_s(self) -> float:
        """How long the window was open, in seconds."""
        return (self.close_ns - self.open_ns) / _NS


def in_window_set(responses: Requests, window: Window) -> Mask:
    """Return which requests were sent while the window was open, warm-up excluded."""
    in_set: Mask = happened_in(responses.send_ns, window) & (responses.phase == "window")
    return in_set


def sent_in(responses: Responses, window: Window) -> Responses:
    """Return the window's set: the requests sent while it was open, warm-up excluded."""
    return responses.where(in_window_set(responses, window))


def happened_in(at_ns: Floats | NDArray[np.int64], window: Window) -> Mask:
    """Return which instants lie in the window."""
    inside: Mask = (at_ns >= window.open_ns) & (at_ns < window.close_ns)
    return inside


def measured(responses: Requests) -> Mask:
    """Return which responses are in the latency distributions and in overall throughput."""
    return np.isin(responses.status, MEASURED_STATUSES)


def observed_window(responses: Responses, nominal_s: float) -> Window | None:
    """Return the window of a run that was killed, as its records show it; None before it opened.

    It opens with the first request of the window's phase and closes after ``nominal_s`` or with
    the last stamp on record.
    """
    in_phase = responses.phase == "window"
    if not in_phase.any():
        return None
    open_ns = int(responses.intended_start_ns[in_phase].min())
    last_ns = int(responses.end_ns[in_phase].max())
    if last_ns <= open_ns:
        return None
    return Window(open_ns, min(open_ns + round(nominal_s * _NS), last_ns), nominal_s)
