"""What a block prefix cache holds, shares and evicts."""

import copy

import numpy as np
import pytest

from agentx_replay.simulator.prefix_cache import Ids, Lease, PrefixCache


def ids(*values: int) -> Ids:
    return np.array(values, np.uint64)


def play(cache: PrefixCache, *blocks: int, room: int = 0) -> int:
    """Run a prompt to its end; return how many blocks were found."""
    lease = admitted(cache, *blocks, room=room)
    found = lease.blocks
    cache.insert(lease, ids(*blocks)[found:])
    cache.release(lease)
    return found


def admitted(cache: PrefixCache, *blocks: int, room: int = 0) -> Lease:
    lease = cache.admit(ids(*blocks), len(blocks), len(blocks) + room)
    assert lease is not None
    return lease


def found(cache: PrefixCache, *blocks: int) -> int:
    """Look in a copy, so as not to change the order of use."""
    return admitted(copy.deepcopy(cache), *blocks, room=-len(blocks)).blocks


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), 3),
        ((1, 2, 3), (1, 2, 3, 4), 3),
        ((1, 2, 3), (1, 2), 2),
        ((1, 2, 3), (1, 2, 9), 2),
        ((1, 2, 3), (9, 2, 3), 0),
        ((1, 1, 1), (1, 1, 1, 1), 3),
        ((), (1,), 0),
        ((1, 2), (), 0),
    ],
)
def test_a_match_is_the_longest_leading_run_held(
    held: tuple[int, ...], asked: tuple[int, ...], expected: int
) -> None:
    cache = PrefixCache(10)
    play(cache, *held)
    assert play(cache, *asked) == expected


def test_the_same_content_behind_another_prefix_is_another_block() -> None:
    cache = PrefixCache(10)
    play(cache, 1, 7, 8)
    play(cache, 2, 7, 8)
    assert cache.cached_blocks == 6
    assert play(cache, 2, 7, 9) == 2


def test_no_more_is_matched_than_the_limit_allows() -> None:
    cache = PrefixCache(10)
    play(cache, 1, 2, 3)
    lease = cache.admit(ids(1, 2, 3), 2, 3)
    assert lease is not None
    assert lease.blocks == 2


def test_blocks_are_visible_when_inserted_and_not_before() -> None:
    cache = PrefixCache(10)
    lease = admitted(cache, 1, 2, 3, 4)
    assert admitted(cache, 1, 2).blocks == 0
    cache.insert(lease, ids(1, 2))
    assert admitted(cache, 1, 2, 3).blocks == 2
    cache.insert(lease, ids(3, 4))
    assert lease.blocks == 4
    assert admitted(cache, 1, 2, 3, 4).blocks == 4


def test_two_sequences_that_compute_the_same_blocks_share_them_afterwards() -> None:
    cache = PrefixCache(10)
    first, second = admitted(cache, 1, 2, 3), admitted(cache, 1, 2, 4)
    cache.insert(first, ids(1, 2, 3))
    cache.insert(second, ids(1, 2, 4))
    assert cache.cached_blocks == 4  # 1 2 3 and 4
    assert cache.reserved_blocks == 2  # the second's own 1 and 2
    cache.release(first)
    cache.release(second)
    assert (cache.cached_blocks, cache.reserved_blocks) == (4, 0)
    assert play(cache, 1, 2, 4) == 3


def test_the_least_recently_released_block_goes_first() -> None:
    cache = PrefixCache(4)
    play(cache, 1, 2)
    play(cache, 3, 4)
    play(cache, 1, 2)
    play(cache, 5, 6)  # evicts 3 and 4
    assert found(cache, 1, 2) == 2
    assert found(cache, 3, 4) == 0


def test_the_end_of_a_prompt_goes_before_its_beginning() -> None:
    cache = PrefixCache(4)
    play(cache, 1, 2, 3)
    play(cache, 8, 9)  # needs one block more than is free
    assert found(cache, 1, 2, 3) == 2


def test_a_shared_beginning_outlives_each_of_its_ends() -> None:
    cache = PrefixCache(6)
    play(cache, 1, 2, 3, 4)
    play(cache, 1, 2, 5, 6)
    play(cache, 8, 9)  # 3 and 4 are the oldest
    assert found(cache, 1, 2, 3, 4) == 2
    assert found(cache, 1, 2, 5, 6) == 4
    play(cache, 10, 11, 12)  # then 6, 5 and 2: older than 8 and 9
    assert found(cache, 1, 2, 5, 6) == 1
    assert found(cache, 8, 9) == 2


def test_a_part_of_a_prompt_used_again_outlives_the_rest() -> None:
    cache = PrefixCache(6)
    play(cache, 1, 2, 3, 4)
    play(cache, 8, 9)
    play(cache, 1, 2)
    play(cache, 11, 12)  # 3 and 4, though 1 and 2 of the same prompt are the newest
    assert found(cache, 1, 2, 3, 4) == 2
    play(cache, 13, 14)  # then 8 and 9
    assert found(cache, 8, 9) == 0
    assert found(cache, 1, 2, 3, 4) == 2


def test_blocks_of_running_sequences_are_never_evicted() -> None:
    cache = PrefixCache(4)
    play(cache, 1, 2, 3)
    running = admitted(cache, 1, 2)
    assert cache.admit(ids(7, 8, 9), 3, 3) is None  # only 3 and one free block can be had
    assert found(cache, 1, 2, 3) == 3  # and nothing was evicted in vain
    play(cache, 7, 8)
    assert found(cache, 1, 2, 3) == 2
    cache.release(running)
    assert play(cache, 7, 8, 9) == 2


def test_room_for_output_counts_until_it_is_released() -> None:
    cache = PrefixCache(5)
    lease = admitted(cache, 1, 2, room=2)
    assert cache.reserved_blocks == 4
    assert cache.admit(ids(3, 4), 2, 2) is None
    cache.insert(lease, ids(1, 2))
    assert (cache.cached_blocks, cache.reserved_blocks) == (2, 2)
    cache.release(lease)
    assert (cache.cached_blocks, cache.reserved_blocks) == (2, 0)
    assert play(cache, 3, 4, 5) == 0


def test_a_run_extended_by_its_own_sequence_is_whole_for_the_next() -> None:
    cache = PrefixCache(10)
    lease = admitted(cache, 1, 2, 3, 4, 5)
    for block in (1, 2, 3, 4, 5):
        cache.insert(lease, ids(block))
    cache.insert(lease, ids())
    cache.release(lease)
    assert play(cache, 1, 2, 3, 4, 5) == 5


def test_a_sequence_that_ends_where_another_goes_on_keeps_only_what_it_holds() -> None:
    cache = PrefixCache(6)
    play(cache, 1, 2)
    short, long = admitted(cache, 1, 2), admitted(cache, 1, 2, 3)
    cache.insert(long, ids(3))
    cache.release(long)
    play(cache, 6, 7, 8, 9)  # 3 may go: the short one does not hold it
    assert found(cache, 1, 2, 3) == 2
    cache.release(short)
    play(cache, 1, 2, 4)
    assert found(cache, 1, 2, 4) == 3


def test_against_a_cache_that_keeps_every_block_by_itself() -> None:
    """Random prompts over few blocks: the same matches and sizes as a list of single blocks."""
    rng = np.random.default_rng(7)
    cache, capacity = PrefixCache(12), 12
    order: list[tuple[int, ...]] = []  # paths held, least recently released first
    for _ in range(3000):
        prompt = tuple(int(v) for v in rng.integers(0, 3, rng.integers(1, 6)))
        paths = [prompt[: n + 1] for n in range(len(prompt))]
        expected = next((n for n, path in enumerate(paths) if path not in order), len(paths))
        for path in paths:
            if path in order:
                order.remove(path)
        excess = len(order) + len(paths) - capacity
        del order[: max(0, excess)]
        order += reversed(paths)  # released end first
        assert play(cache, *prompt) == expected
        assert cache.cached_blocks == len(order)
