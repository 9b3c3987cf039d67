"""Keys tell apart what must not share text, and are the same on every machine."""

import numpy as np

from agentx_replay.prompts.keys import LevelKeys, counter_mixes, key64

# The first outputs of splitmix64 seeded with 0, as published with its reference code.
SPLITMIX64_FROM_0 = [
    0xE220A8397B1DCDAF,
    0x6E789E6AA1B965F4,
    0x06C45D188009454F,
    0xF88BB8A8724C81EC,
    0x1B39896A51A8749B,
]


def test_counter_mixes_are_splitmix64() -> None:
    assert counter_mixes(5).tolist() == SPLITMIX64_FROM_0


def test_counter_mixes_of_any_count_begin_alike() -> None:
    assert counter_mixes(3).tolist() == SPLITMIX64_FROM_0[:3]
    assert counter_mixes(0).tolist() == []
    assert counter_mixes(1000)[:5].tolist() == SPLITMIX64_FROM_0


def test_counter_mixes_are_all_different() -> None:
    assert len(np.unique(counter_mixes(10_000))) == 10_000


def test_a_key_does_not_confuse_where_its_parts_end() -> None:
    assert key64("ab", "c") != key64("a", "bc")
    assert key64("1") != key64(1)


def test_a_key_is_the_same_everywhere() -> None:
    # blake2b, 8 bytes, of the text ["play","salt",8,1,0,0] (b2sum -l 64).
    assert LevelKeys("salt", 8, 1).play(0, 0) == 0x68D14C94EC3C76F9


def test_the_first_start_has_the_key_of_a_level_that_is_measured_once() -> None:
    assert LevelKeys("salt", 8, 1, start=1).play(0, 0) == 0x68D14C94EC3C76F9
    # The same of ["play","salt",8,1,"start",2,0,0].
    assert LevelKeys("salt", 8, 1, start=2).play(0, 0) == 0xB8F143ACD6779F05


def test_every_part_of_a_play_changes_its_key() -> None:
    plays = [
        LevelKeys("salt", 8, 1).play(0, 0),
        LevelKeys("tlas", 8, 1).play(0, 0),
        LevelKeys("salt", 9, 1).play(0, 0),
        LevelKeys("salt", 8, 2).play(0, 0),
        LevelKeys("salt", 8, 1, start=2).play(0, 0),
        LevelKeys("salt", 8, 1).play(1, 0),
        LevelKeys("salt", 8, 1).play(0, 1),
    ]
    assert len(set(plays)) == 7


def test_a_system_prefix_is_shared_by_the_plays_of_its_session() -> None:
    keys = LevelKeys("salt", 8, 1)
    assert keys.system_prefix("a", 10, 20, 0) == keys.system_prefix("a", 10, 20, 0)
    assert keys.system_prefix("a", 10, 20, 0) != keys.system_prefix("b", 10, 20, 0)
    assert keys.system_prefix("a", 10, 20, 0) != keys.system_prefix("a", 10, 20, 1)


def test_a_corpus_wide_system_prefix_goes_by_its_lengths() -> None:
    keys = LevelKeys("salt", 8, 1, "corpus")
    assert keys.system_prefix("a", 10, 20, 0) == keys.system_prefix("b", 10, 20, 0)
    assert keys.system_prefix("a", 10, 20, 0) != keys.system_prefix("a", 20, 10, 0)


def test_a_system_prefix_is_not_shared_between_levels_attempts_or_starts() -> None:
    prefix = ("a", 10, 20, 0)
    levels = [
        LevelKeys("salt", 8, 1),
        LevelKeys("salt", 8, 2),
        LevelKeys("salt", 9, 1),
        LevelKeys("salt", 8, 1, start=2),
    ]
    assert len({keys.system_prefix(*prefix) for keys in levels}) == 4
