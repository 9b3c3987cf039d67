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

LEVELS = [
    LevelKeys("salt", 8, 1),
    LevelKeys("tlas", 8, 1),
    LevelKeys("salt", 9, 1),
    LevelKeys("salt", 8, 2),
    LevelKeys("salt", 8, 1, start=2),
]
"""They differ in salt, level, attempt and start."""


def test_counter_mixes_are_splitmix64_whatever_their_count_and_all_different() -> None:
    for count in (0, 3, 5, 1000):
        assert counter_mixes(count)[:5].tolist() == SPLITMIX64_FROM_0[:count]
    assert len(np.unique(counter_mixes(10_000))) == 10_000


def test_a_key_does_not_confuse_where_its_parts_end() -> None:
    assert key64("ab", "c") != key64("a", "bc")
    assert key64("1") != key64(1)


def test_a_key_is_the_same_everywhere() -> None:
    # blake2b, 8 bytes, of the text ["play","salt",8,1,0,0] (b2sum -l 64). The first start has the
    # key of a level that is measured once; the second that of ["play","salt",8,1,"start",2,0,0].
    assert LevelKeys("salt", 8, 1).play(0, 0) == 0x68D14C94EC3C76F9
    assert LevelKeys("salt", 8, 1, start=1).play(0, 0) == 0x68D14C94EC3C76F9
    assert LevelKeys("salt", 8, 1, start=2).play(0, 0) == 0xB8F143ACD6779F05


def test_every_part_of_a_play_changes_its_keys() -> None:
    keys = LEVELS[0]
    assert len({each.play(0, 0) for each in LEVELS} | {keys.play(1, 0), keys.play(0, 1)}) == 7
    assert len({each.system_prefix("a", 10, 20, 0) for each in LEVELS}) == 5


def test_a_system_prefix_is_shared_by_the_plays_of_its_session_or_of_the_corpus() -> None:
    prefixes = [("a", 10, 20, 0), ("b", 10, 20, 0), ("a", 20, 10, 0), ("a", 10, 20, 1)]
    session = [LevelKeys("salt", 8, 1).system_prefix(*each) for each in prefixes]
    assert len(set(session)) == 4
    corpus = [LevelKeys("salt", 8, 1, "corpus").system_prefix(*each) for each in prefixes]
    assert corpus[0] == corpus[1]
    assert len(set(corpus)) == 3
