"""What the times of subagents mean, as a table."""

import pytest

from agentx_replay.traces.dialect import MarkerTimes, completions, inner_times_are_relative


def marker(
    t_s: float,
    duration_s: float | None = 10.0,
    first_inner_t_s: float | None = 0.0,
    *,
    launched_async: bool = False,
) -> MarkerTimes:
    return MarkerTimes(t_s, duration_s, launched_async, first_inner_t_s)


@pytest.mark.parametrize(
    ("markers", "relative"),
    [
        ([], False),
        ([marker(20, first_inner_t_s=0)], True),
        ([marker(20, first_inner_t_s=20)], False),
        ([marker(0, first_inner_t_s=0)], False),  # both at the start: tells nothing
        ([marker(20, first_inner_t_s=None)], False),
        # One answer a file: the second lost its first requests, it is still relative.
        ([marker(20, first_inner_t_s=0), marker(90, first_inner_t_s=12)], True),
    ],
)
def test_inner_times_count_from_the_spawn_if_a_later_markers_begin_at_zero(
    markers: list[MarkerTimes], relative: bool
) -> None:
    assert inner_times_are_relative(markers) is relative


CASES = [
    # marker, other main starts, is completion
    (marker(20), [0, 25], True),  # silence before, life after
    (marker(20), [0, 15], False),  # life before, silence after
    (marker(20), [10, 20, 30, 25], True),  # the ends of the spans do not count
    (marker(20), [0, 40], True),  # silent on both sides: the default
    (marker(20), [15, 25], True),  # alive on both sides: the default
    (marker(20, None), [0, 25], False),
    (marker(20, launched_async=True), [0, 25], False),
    (marker(20, 0.0), [0, 25], True),
]


@pytest.mark.parametrize(("one", "starts_s", "is_completion"), CASES)
def test_a_marker_is_judged_by_the_main_requests_around_it(
    one: MarkerTimes, starts_s: list[float], is_completion: bool
) -> None:
    assert completions([one], starts_s, relative=True) == [is_completion]


def test_absolute_inner_times_settle_that_markers_are_spawns() -> None:
    assert completions([marker(20, first_inner_t_s=21)], [0, 25], relative=False) == [False]


@pytest.mark.parametrize(
    ("starts_s", "verdicts"),
    [
        # (10, 20) busy, (20, 30) not: a spawn; 100 and 200 have nobody around them.
        ([15], [False, False, False]),
        ([25], [True, True, True]),
        # One of each: the default again for the third.
        ([15, 105], [False, True, True]),
    ],
)
def test_an_unsettled_marker_follows_the_majority_of_its_file(
    starts_s: list[float], verdicts: list[bool]
) -> None:
    assert completions([marker(20), marker(100), marker(200)], starts_s, relative=True) == verdicts


def test_launches_have_no_vote() -> None:
    launches = [marker(20, None), marker(30, launched_async=True)]
    assert completions([*launches, marker(200)], [], relative=True) == [False, False, True]
