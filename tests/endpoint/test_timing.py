"""How far timestamps may be off, worked out by hand."""

import numpy as np
import pytest

from agentx_replay.endpoint.kernel_stamps import TIMESPEC
from agentx_replay.endpoint.poll_times import PollInterval
from agentx_replay.endpoint.timing import ReadTimes, event_times, gathered_reads, late_events

MS = 1_000_000
WALL_NS = 1_700_000_000_000_000_000
"""How far the wall clock is ahead in these tests."""


def stamp(ms: float) -> bytes:
    """The kernel's stamp of an instant of the monotonic clock."""
    return TIMESPEC.pack(*divmod(WALL_NS + round(ms * MS), 1_000_000_000))


def polled(floor_ms: float, end_ms: float, step_ms: float = 0.0) -> PollInterval:
    return PollInterval(round(floor_ms * MS), WALL_NS, round(end_ms * MS), round(step_ms * MS))


def kernel(*reads: tuple[float, PollInterval], sent_ms: float = 0.0) -> ReadTimes:
    """Reads that the kernel stamped at such ms, in such an interval between polls."""
    times = ReadTimes(stamped=True, sent_ns=round(sent_ms * MS))
    times.stamps = [stamp(at_ms) for at_ms, _ in reads]
    times.intervals = [interval for _, interval in reads]
    return times


def in_ms(times: ReadTimes, places: list[int], followed: list[int]) -> list[tuple[float, float]]:
    """Each event's time and uncertainty, in ms."""
    ns, uncertainty_ns = event_times(times, np.array(places, np.int64), followed)
    return [(at / MS, off / MS) for at, off in zip(ns, uncertainty_ns, strict=True)]


def test_an_event_that_ends_its_read_is_exact() -> None:
    reads = kernel((10, polled(9, 11)), (30, polled(29, 31)))
    assert in_ms(reads, [0, 1], []) == [(10, 0), (30, 0)]


def test_the_earlier_events_of_a_read_lie_after_the_last_poll_that_found_none() -> None:
    reads = kernel((10, polled(9, 11)), (30, polled(18, 31)))
    assert in_ms(reads, [0, 1, 1, 1], []) == [(10, 0), (30, 12), (30, 12), (30, 0)]


def test_what_was_stamped_before_bounds_it_too() -> None:
    """The loop looked at 5 ms, but the read before this one has bytes of 25 ms."""
    reads = kernel((25, polled(5, 31)), (30, polled(5, 31)))
    assert in_ms(reads, [0, 1, 1], []) == [(25, 0), (30, 5), (30, 0)]


def test_nothing_came_before_the_request_was_sent() -> None:
    reads = kernel((30, polled(5, 31)), sent_ms=22)
    assert in_ms(reads, [0, 0], []) == [(30, 8), (30, 0)]


def test_an_event_that_more_followed_in_its_read_is_no_end() -> None:
    reads = kernel((10, polled(9, 11)), (30, polled(28, 31)))
    assert in_ms(reads, [0, 1], [1]) == [(10, 0), (30, 2)]


def test_all_events_of_a_single_segment_are_exact() -> None:
    reads = kernel((10, polled(9, 11)), (30, polled(18, 31)))
    reads.one_segment_each = True
    assert in_ms(reads, [0, 1, 1], [1]) == [(10, 0), (30, 0), (30, 0)]


@pytest.mark.parametrize("one_segment_each", [True, False])
def test_a_read_whose_stamp_is_a_bound_is_one_for_its_last_event_too(
    one_segment_each: bool,
) -> None:
    reads = kernel((10, polled(9, 11)), (30, polled(20, 31)))
    reads.bounds.add(1)
    reads.one_segment_each = one_segment_each
    assert in_ms(reads, [0, 1], []) == [(10, 0), (30, 10)]


def test_a_step_of_the_clock_is_as_uncertain_as_it_is_wide() -> None:
    reads = kernel((10, polled(9, 11, step_ms=3)), (30, polled(29, 31)))
    assert in_ms(reads, [0, 1], []) == [(10, 3), (30, 0)]


def test_what_came_in_order_has_times_in_order() -> None:
    reads = kernel((10, polled(8, 12)), (7, polled(8, 12)), (30, polled(29, 31)))
    assert in_ms(reads, [0, 1, 2], []) == [(10, 0), (10, 0), (30, 0)]


def test_a_process_that_looked_in_time_is_believed_and_one_that_was_held_up_is_not() -> None:
    """It stamped at 10 ms what came after 7, and at 40 what came after 20. The ticks of 9 and 11 ms
    were in time; those of 58.2 and 60.7 were late by 0.2 and 0.5.
    """
    times = ReadTimes(stamped=False, sent_ns=0)
    times.stamps = [10 * MS, 40 * MS, 59 * MS]
    times.intervals = [polled(7, 11), polled(20, 41), polled(56, 60.7)]
    for interval, start_ms in zip(times.intervals, (9, 22, 58.2), strict=True):
        interval.start_ns = round(start_ms * MS)
    expected = [(10, 0), (40, 20), (40, 20), (59, 0.7)]
    assert in_ms(times, [0, 1, 1, 2], []) == expected
    assert late_events(times, event_times(times, np.array([0, 1, 1, 2]), [])[1]) == 2


def test_a_response_without_events_has_no_times() -> None:
    assert in_ms(kernel((10, polled(9, 11))), [], []) == []


@pytest.mark.parametrize(
    ("places", "one_segment_each", "gathered"),
    [
        ([0, 1, 2], False, 0),
        ([0, 0, 1, 2], False, 1),
        ([0, 0, 0, 1, 1], False, 1),
        ([0, 0, 0, 1, 1], True, 2),
        ([], False, 0),
    ],
)
def test_reads_of_several_events_are_others_doing_where_the_client_was_in_time(
    places: list[int], one_segment_each: bool, gathered: int
) -> None:
    """The first read was in time; the second, in an interval of 10 ms, was not."""
    reads = kernel((10, polled(9, 11)), (30, polled(21, 31)), (40, polled(39, 41)))
    reads.one_segment_each = one_segment_each
    assert gathered_reads(reads, np.array(places, np.int64)) == gathered
