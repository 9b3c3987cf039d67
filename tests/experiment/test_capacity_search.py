"""The search for the capacity, on systems of which the crossings are known."""

from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest

from agentx_replay.analysis.capacity import Capacity, Outcome, capacity_of
from agentx_replay.analysis.objective import objective_of
from agentx_replay.experiment.capacity_search import Seen, Seens, Wanted, next_level
from agentx_replay.experiment.levels import Done, SearchRange
from agentx_replay.results.layout import Measurement

OBJECTIVE = objective_of("itl:p90<=10ms")
USUAL = SearchRange()
World = Callable[[int, int], float]
"""The worst margin at a concurrency and start."""


def outcome(level: Measurement, worst: float, *, early: bool = False) -> Outcome:
    """A level; if it may be, and is 1.4 times over its bound, stopped early."""
    if early and worst > log(1.4):
        return Outcome(level, (None,) * 3, stopped_early="stopped early")
    return Outcome(level, (worst, log(0.01), log(0.01)))


def searched(
    *worlds: World, within: SearchRange = USUAL, starts: int = 3, took_s: float = 60.0,
    seen: dict[Measurement, Seen] | None = None,
) -> tuple[list[str], Done, dict[Measurement, Seen]]:  # fmt: skip
    """The levels measured, in order, those that may be stopped early with a star; and the end."""
    asked, seen = [], {} if seen is None else seen
    while isinstance(wanted := next_level(within, starts, took_s, seen), Wanted):
        level = wanted.level
        asked.append(f"{level}{'*' if wanted.early else ''}")
        outs = [outcome(level, world(*level), early=wanted.early) for world in worlds]
        if not all(out.stopped_early for out in outs):
            outs = [outcome(level, world(*level)) for world in worlds]
        seen[level] = Seen(tuple(outs), took_s)
    return asked, wanted, seen


def read_off(seen: Seens, number: int = 0) -> Capacity:
    return capacity_of([each.outcomes[number] for each in seen.values()], OBJECTIVE)


def crossing_at(*agents: float) -> World:
    """Margins that grow as N to the power 1.2, one crossing a start."""
    return lambda n, start: 1.2 * log(n / agents[(start - 1) % len(agents)])


def test_the_first_start_is_doubled_then_narrowed_and_the_others_measured_around_it() -> None:
    asked, end, seen = searched(crossing_at(44.0))
    others = ["33-s2", "58-s2", "33-s3", "58-s3"]
    assert asked == ["8*", "16*", "32*", "64*", "45*", "38", *others]
    assert end == Done()
    found = read_off(seen)
    assert found.agents == pytest.approx(44.0)
    assert (found.at_least, found.below) == (33, 58)


def test_the_neighbours_of_the_crossing_are_measured_whole() -> None:
    # 64 agents are stopped early, and needed when 54 keep it; 128 are stopped, and not needed.
    asked, _, seen = searched(lambda n, _: 9.0 * log(n / 58.0), starts=1)
    assert asked == ["8*", "16*", "32*", "64*", "45*", "54", "64"]
    assert read_off(seen).agents == pytest.approx(58.0)
    within = SearchRange(first=128)
    asked, _, seen = searched(lambda n, _: 9.0 * log(n / 80.0), starts=1, within=within)
    assert asked == ["128*", "64*", "91*", "76", "91"]
    assert seen[Measurement(128)].outcomes[0].stopped_early


def test_a_false_alarm_is_put_right_by_the_level_measured_whole() -> None:
    within = SearchRange(first=40)
    world = crossing_at(60.0)
    _, _, seen = searched(world, within=within, starts=1)
    assert [*seen] == [Measurement(40), Measurement(80), Measurement(57), Measurement(68)]
    alarmed = dict(seen)
    alarmed[Measurement(57)] = Seen((outcome(Measurement(57), 1.0, early=True),), 60.0)
    again, _, seen = searched(world, within=within, starts=1, seen=alarmed)
    assert again == ["48", "57"]
    assert read_off(seen).agents == pytest.approx(60.0)


def test_a_start_whose_crossing_is_elsewhere_is_followed() -> None:
    asked, _, seen = searched(crossing_at(44.0, 60.0, 29.0))
    assert asked[6:] == ["33-s2", "58-s2", "101-s2", "33-s3", "58-s3", "18-s3"]
    assert read_off(seen).agents == pytest.approx((44 * 60 * 29) ** (1 / 3), rel=0.01)


def test_a_range_has_ends() -> None:
    every, end, seen = searched(crossing_at(9999.0), within=SearchRange(high=40))
    assert (every, end) == (["8*", "16*", "32*", "40*"], Done())
    assert read_off(seen).at_least == 40
    none, _, seen = searched(crossing_at(0.5))
    assert none == ["8*", "4*", "2*", "1*"]
    assert read_off(seen).below == 1
    one, _, _ = searched(crossing_at(9999.0), within=SearchRange(first=8, low=8, high=8))
    assert one == ["8*"]


def test_tiny_systems_get_a_whole_number() -> None:
    asked, _, seen = searched(crossing_at(2.5))
    assert asked == ["8*", "4*", "2*", "3", "2-s2", "3-s2", "2-s3", "3-s3"]
    assert read_off(seen).agents == 2.0


def test_objectives_share_levels_the_easier_first() -> None:
    asked, _, seen = searched(crossing_at(11.0), crossing_at(44.0), starts=1)
    assert asked == ["8*", "16*", "32*", "64*", "45*", "38", "11*", "13"]
    assert [read_off(seen, n).agents for n in (0, 1)] == pytest.approx([11.0, 44.0], rel=0.02)


@pytest.mark.parametrize("kept", range(11))
def test_a_search_that_was_cut_off_goes_on_as_if_it_had_not_been(kept: int) -> None:
    world = crossing_at(44.0, 60.0, 41.0)
    whole, _, _ = searched(world)
    seen: dict[Measurement, Seen] = {}
    while len(seen) < kept and isinstance(
        wanted := next_level(SearchRange(), 3, 9.0, seen), Wanted
    ):
        out = outcome(wanted.level, world(*wanted.level), early=wanted.early)
        seen[wanted.level] = Seen((out,), 9.0)
    rest, _, _ = searched(world, seen=dict(reversed(seen.items())))
    assert rest == whole[kept:]


def test_more_starts_go_on_with_a_search() -> None:
    _, _, seen = searched(crossing_at(44.0), starts=3)
    more, _, _ = searched(crossing_at(44.0), starts=5, seen=seen)
    assert more == ["33-s4", "58-s4", "33-s5", "58-s5"]


def test_a_level_that_would_not_end_in_the_budget_is_not_begun() -> None:
    asked, end, _ = searched(crossing_at(44.0), within=SearchRange(budget_s=200.0))
    assert asked == ["8*", "16*", "32*"]
    assert isinstance(end, Done)
    assert end.why.startswith("budget spent")


def test_a_level_that_says_nothing_ends_the_search() -> None:
    trouble = replace(outcome(Measurement(16), 0.0), trouble="client: loop lag", client=True)
    seen = {Measurement(8): Seen((outcome(Measurement(8), -1.0),), 60.0)}
    seen[Measurement(16)] = Seen((trouble,), 60.0)
    end = next_level(SearchRange(), 3, 60.0, seen)
    assert isinstance(end, Done)
    assert end.why == "client limit at 16 agents: client: loop lag"
