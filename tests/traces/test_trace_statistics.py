"""What the numbers of a corpus mean, on sessions small enough to count by hand."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from agentx_replay.traces.corpus import fingerprint
from agentx_replay.traces.model import Corpus, Session
from agentx_replay.traces.statistics import (
    Percentiles,
    _families,
    corpus_statistics,
    duplicate_families,
    percentiles,
    session_statistics,
)
from agentx_replay.traces.weka import read_session, request_lists


def request(t: float, tokens: int, out: int, ids: Iterable[int], **more: Any) -> dict[str, Any]:
    return {"t": t, "in": tokens, "out": out, "hash_ids": list(ids), "model": "m", **more}


def session(name: str, requests: list[Any], **more: Any) -> Session:
    value = {"id": name, "block_size": 64, "requests": requests, **more}
    return read_session(orjson.dumps(value), f"{name}.json")


def lengths(name: str, *pairs: tuple[int, int]) -> Session:
    return session(
        name, [request(i, tokens, out, range(0)) for i, (tokens, out) in enumerate(pairs)]
    )


# Ten blocks, then: all ten kept and two new (no change), eleven of twelve kept (an edit), six of
# twelve kept (half: an edit),
# three of six kept (half: an edit), none of four (a reset).
CHANGING = session(
    "changing",
    [
        request(0, 640, 10, range(10), api_time=2.0),
        request(5, 768, 0, range(12)),
        request(6, 768, 20, [*range(11), 99]),
        request(7, 384, 20, range(6)),
        request(8, 256, 20, [0, 1, 2, 98]),
        request(9, 64, 700, [97]),
        {
            "type": "subagent",
            "t": 9.5,
            "duration_ms": None,
            "requests": [request(9.5, 128, 30, [96, 95]), request(9.6, 192, 40, [96, 94, 93])],
        },
    ],
    tool_tokens=64,
    system_tokens=64,
)


def test_a_session_is_counted_with_its_subagents_its_reuse_and_its_edits() -> None:
    found = session_statistics(CHANGING)
    assert (found.id, found.requests, found.subagents) == ("changing", 8, 1)
    # 640 + 768 + 768 + 384 + 256 + 64 + 128 + 192 and 10 + 20 + 20 + 20 + 700 + 30 + 40
    assert (found.input_tokens, found.output_tokens) == (3200, 840)
    # An output of 0 is replayed as one token: 768 + 20 is the most.
    assert found.peak_tokens == 788
    # Known: 0, 10, 11, 6, 3, 0, 0, 1 = 31 of 10 + 12 + 12 + 6 + 4 + 1 + 2 + 3 = 50.
    assert (found.known_blocks, found.blocks) == (31, 50)
    assert found.reuse == pytest.approx(0.62)
    # Kept: 10/10 neither, 11/12 edit, 6/12 edit, 3/6 edit, 0/4 reset; the subagent's is left out.
    assert (found.resets, found.edits) == (1, 3)


def test_resets_are_counted_in_the_conversations_that_the_caller_knows() -> None:
    turns = session(
        "turns",
        [request(t, 640, 1, range(100 * (t % 2), 100 * (t % 2) + 10)) for t in range(4)],
    )
    assert session_statistics(turns).resets == 3
    main = request_lists(turns.entries)[0]
    assert session_statistics(turns, lambda _: [main[0::2], main[1::2]]).resets == 0


def test_a_session_without_whole_blocks_has_no_reuse_and_no_resets() -> None:
    found = session_statistics(lengths("short", (9, 1), (10, 1)))
    assert (found.reuse, found.resets, found.edits) == (0.0, 0, 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Percentiles(0, 0, 0)),
        ([7], Percentiles(7, 7, 7)),
        # Linear: the 90th of 11 values 0, 10 … 100 is 90; of two values, nine tenths of the way.
        ([*range(100, -10, -10)], Percentiles(50, 90, 100)),
        ([10, 20], Percentiles(15, 19, 20)),
    ],
)
def test_percentiles_are_linear_between_the_two_nearest(
    values: list[float], expected: Percentiles
) -> None:
    assert percentiles(values) == expected


def corpus(*sessions: Session) -> Corpus:
    return Corpus("c", sessions, fingerprint(sessions), (("x.json", "it is bad"),))


def test_a_corpus_sums_its_sessions_and_weighs_reuse_by_blocks() -> None:
    plain = session("plain", [request(0, 640, 5, range(10), colour=1)])
    found = corpus_statistics(corpus(CHANGING, plain))
    assert [each.id for each in found.sessions] == ["changing", "plain"]
    total, notes = found.total, found.notes
    assert (total.requests, total.subagents, found.subagent_sessions) == (9, 1, 1)
    assert (total.input_tokens, total.output_tokens, total.peak_tokens) == (3840, 845, 788)
    assert (total.resets, total.edits) == (1, 3)
    assert total.reuse == pytest.approx(31 / 60)
    assert found.requests_per_session == Percentiles(4.5, 7.3, 8.0)
    assert found.peak_tokens_per_session.max == 788
    assert notes.unknown_keys == (("request.colour", 1),)
    assert (notes.missing_durations, notes.zero_outputs) == (8, 1)
    assert (notes.short_block_lists, notes.negative_gaps) == (0, 0)
    assert found.skipped == (("x.json", "it is bad"),)


def test_gaps_count_from_the_recorded_end_and_overlaps_are_zero() -> None:
    overlapping = session(
        "o",
        [
            request(0, 64, 1, range(1), api_time=4.0),
            request(2, 64, 1, range(1), api_time=1.0),  # 2 s before the other's end: 0
            request(9, 64, 1, range(1)),  # 9 - 3 = 6
        ],
    )
    assert corpus_statistics(corpus(overlapping)).gap_s == Percentiles(3.0, 5.4, 6.0)


A, B, C, D, E, F = ((100, 1), (200, 2), (300, 3), (400, 4), (500, 5), (600, 6))


@pytest.mark.parametrize(
    ("sessions", "families"),
    [
        ([lengths("1", A, B, C), lengths("2", A, B, C)], (("1", "2"),)),
        ([lengths("1", A, B, C), lengths("2", A, C, B)], ()),
        # Shingles ABC BCD against BCD CDE: one of two is half.
        ([lengths("1", A, B, C, D), lengths("2", B, C, D, E)], (("1", "2"),)),
        # ABC BCD CDE against CDE DEF EFA: one of three is not.
        ([lengths("1", A, B, C, D, E), lengths("2", C, D, E, F, A)], ()),
        # 1 and 3 share nothing, but each shares half with 2.
        (
            [lengths("1", A, B, C, D), lengths("2", B, C, D, E), lengths("3", C, D, E, F)],
            (("1", "2", "3"),),
        ),
        # 3 links 1 and 2, which have nothing in common, whatever the order of their lengths.
        (
            [lengths("1", A, B, C), lengths("2", D, E, F), lengths("3", A, B, C, D, E, F, A, B)],
            (("1", "2", "3"),),
        ),
        # Shorter than a shingle: all of it is compared.
        ([lengths("1", A), lengths("2", A), lengths("3", A, B)], (("1", "2"),)),
    ],
)
def test_near_duplicates_share_half_the_shingles_of_the_shorter(
    sessions: list[Session], families: tuple[tuple[str, ...], ...]
) -> None:
    assert duplicate_families(sessions) == families


def test_time_to_find_near_duplicates_grows_with_the_sessions_alone() -> None:
    """Counted by how often a session's shingles are compared with another's."""

    class Counted(set[int]):
        comparisons = 0

        def __and__(self, other: Any) -> set[int]:
            Counted.comparisons += 1
            return set.__and__(self, other)

    alike = [Counted(range(98)) for _ in range(400)]
    near = [Counted([*range(60), *range(100 + 38 * i, 138 + 38 * i)]) for i in range(400)]
    drifting = [Counted(range(20 * i, 20 * i + 98)) for i in range(400)]
    for sessions in (alike, near, drifting):
        Counted.comparisons = 0
        assert len(set(_families(sessions))) == 1  # type: ignore[arg-type]
        assert Counted.comparisons < 2 * 400
