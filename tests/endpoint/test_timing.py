"""How far timestamps may be off, worked out by hand."""

import numpy as np
import pytest

from agentx_replay.endpoint.kernel_stamps import TIMESPEC
from agentx_replay.endpoint.timing import ReadTimes, event_times, gathered_reads, late_events

MS = 1_000_000
WALL_NS = 1_700_000_000_000_000_000
"""How far the wall clock is ahead in these tests."""


def stamp(ms: float) -> bytes:
    """The kernel's stamp of an instant of the monotonic clock."""
    return TIMESPEC.pack(*divmod(WALL_NS + round(ms * MS), 1_000_000_000))


def kernel(*at_ms: float, ticks: tuple[float, ...], sent_ms: float = 0.0) -> ReadTimes:
    """Reads that the kernel stamped at such ms, of a loop that ticked at such ms."""
    times = ReadTimes(stamped=True, sent_ns=round(sent_ms * MS), offset_ns=WALL_NS)
    times.stamps = bytearray(b"".join(stamp(each) for each in at_ms))
    times.ticks_ns = np.array([round(tick * MS) for tick in ticks], np.int64)
    return times


def in_ms(times: ReadTimes, places: list[int], followed: list[int]) -> list[tuple[float, float]]:
    """Each event's time and uncertainty, in ms."""
    ns, uncertainty_ns = event_times(times, np.array(places, np.int64), followed)
    return [(at / MS, off / MS) for at, off in zip(ns, uncertainty_ns, strict=True)]


def test_an_event_that_ends_its_read_is_exact() -> None:
    assert in_ms(kernel(10, 30, ticks=(9, 11, 29, 31)), [0, 1], []) == [(10, 0), (30, 0)]


def test_the_earlier_events_of_a_read_lie_after_the_tick_before_the_last() -> None:
    reads = kernel(10, 30, ticks=(9, 11, 18, 29, 31))
    assert in_ms(reads, [0, 1, 1, 1], []) == [(10, 0), (30, 12), (30, 12), (30, 0)]


def test_a_tick_that_is_as_near_as_the_clocks_may_be_apart_is_not_before_a_stamp() -> None:
    reads = kernel(10, 30, ticks=(9, 11, 18, 25, 29.95))
    assert in_ms(reads, [0, 1, 1], []) == [(10, 0), (30, 12), (30, 0)]


def test_what_was_stamped_before_bounds_it_too() -> None:
    """The loop ticked at 5 and 24 ms, but the read before this one has bytes of 25 ms."""
    assert in_ms(kernel(25, 30, ticks=(5, 24, 31)), [0, 1, 1], []) == [(25, 0), (30, 5), (30, 0)]


def test_nothing_came_before_the_request_was_sent() -> None:
    """Without ticks since then, too."""
    for ticks in ((24.0, 31.0), ()):
        assert in_ms(kernel(30, ticks=ticks, sent_ms=22), [0, 0], []) == [(30, 8), (30, 0)]


def test_an_event_that_more_followed_in_its_read_is_no_end() -> None:
    assert in_ms(kernel(10, 30, ticks=(9, 28, 29)), [0, 1], [1]) == [(10, 0), (30, 2)]


def test_all_events_of_a_single_segment_are_exact() -> None:
    reads = kernel(10, 30, ticks=(9, 18, 29))
    reads.one_segment_each = True
    assert in_ms(reads, [0, 1, 1], [1]) == [(10, 0), (30, 0), (30, 0)]


@pytest.mark.parametrize("one_segment_each", [True, False])
def test_a_read_whose_stamp_is_a_bound_is_one_for_its_last_event_too(
    one_segment_each: bool,
) -> None:
    reads = kernel(10, 30, ticks=(9, 20, 29))
    reads.bounds.append(1)
    reads.one_segment_each = one_segment_each
    assert in_ms(reads, [0, 1], []) == [(10, 0), (30, 10)]


@pytest.mark.parametrize("one_segment_each", [True, False])
def test_a_step_of_the_clock_is_as_uncertain_as_it_is_wide(one_segment_each: bool) -> None:
    reads = kernel(10, 30, ticks=(9, 11, 29, 31))
    reads.step_ns = 3 * MS
    reads.one_segment_each = one_segment_each
    assert in_ms(reads, [0, 1], []) == [(10, 3), (30, 3)]


def test_what_came_in_order_has_times_in_order() -> None:
    assert in_ms(kernel(10, 7, 30, ticks=()), [0, 1, 2], []) == [(10, 0), (10, 0), (30, 0)]


def test_a_process_that_looked_in_time_is_believed_and_one_that_was_held_up_is_not() -> None:
    """It stamped at 10 ms what came after 7, and at 40 what came after 20. The ticks of 9 and 11 ms
    were in time; those of 58.2 and 60.7 were late by 0.2 and 0.5.
    """
    times = ReadTimes(stamped=False, sent_ns=0)
    times.stamps = bytearray(np.array([10, 40, 59]) * MS)
    ticks = (7, 9, 11, 20, 22, 41, 56, 58.2, 60.7)
    times.ticks_ns = np.array([round(tick * MS) for tick in ticks], np.int64)
    expected = [(10, 0), (40, 20), (40, 20), (59, 0.7)]
    assert in_ms(times, [0, 1, 1, 2], []) == expected
    assert late_events(times, event_times(times, np.array([0, 1, 1, 2]), [])[1]) == 2


def test_a_response_without_events_has_no_times() -> None:
    assert in_ms(kernel(10, ticks=(9, 11)), [], []) == []


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
    """The first read was in time; the second, between ticks of 21 and 31 ms, was not."""
    reads = kernel(10, 30, 40, ticks=(7, 9, 11, 21, 29, 31, 39, 41))
    reads.one_segment_each = one_segment_each
    assert gathered_reads(reads, np.array(places, np.int64)) == gathered
