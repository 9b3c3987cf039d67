"""What the times of subagents mean, which differs between sets of recordings.

Two things are to be found out: whether the ``t`` of requests inside a subagent counts from the
subagent's spawn or from the session's start (one answer a file), and whether a marker's ``t`` is
when the subagent was started or when its result came back (one answer a marker). The rules were
found on public files (docs/traces.md). Nothing here reads a file.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MarkerTimes:
    """What a subagent marker says about time. ``first_inner_t_s`` is None without requests.

    ``launched_async``: the recording says that the marker is the launch.
    """

    t_s: float
    duration_s: float | None
    launched_async: bool
    first_inner_t_s: float | None


def inner_times_are_relative(markers: Sequence[MarkerTimes]) -> bool:
    """Whether inner times count from the spawn: a subagent of a later marker begins at 0."""
    return any(marker.first_inner_t_s == 0 and marker.t_s > 0 for marker in markers)


def completions(
    markers: Sequence[MarkerTimes], main_starts_s: Sequence[float], *, relative: bool
) -> list[bool]:
    """Return for each marker whether its ``t`` is the completion.

    Absolute inner times go with markers at the spawn. Else each marker is judged by the main
    requests around it; one that cannot be judged follows the majority of the file's others, and
    is a completion where there is none. ``main_starts_s`` may be in any order.
    """
    if not relative:
        return [False] * len(markers)
    starts = sorted(main_starts_s)
    judged = [_judge(marker, starts) for marker in markers]
    votes = [
        verdict for marker, verdict in zip(markers, judged, strict=True) if not _is_launch(marker)
    ]
    otherwise = votes.count(True) >= votes.count(False)
    return [otherwise if verdict is None else verdict for verdict in judged]


def _is_launch(marker: MarkerTimes) -> bool:
    return marker.launched_async or marker.duration_s is None


def _judge(marker: MarkerTimes, starts_s: Sequence[float]) -> bool | None:
    """Whether a marker is a completion; None where the requests around it do not tell.

    A main agent that waits for a subagent sends nothing while it runs and goes on after it.
    """
    if marker.launched_async or marker.duration_s is None:
        return False
    busy_before = _any_between(starts_s, marker.t_s - marker.duration_s, marker.t_s)
    busy_after = _any_between(starts_s, marker.t_s, marker.t_s + marker.duration_s)
    return None if busy_before == busy_after else busy_after


def _any_between(ordered: Sequence[float], low: float, high: float) -> bool:
    return bisect_right(ordered, low) < bisect_left(ordered, high)
