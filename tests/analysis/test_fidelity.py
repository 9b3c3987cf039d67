"""The fidelity report from result tables, each number worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fidelity_cases import OF
from record_cases import SECOND, dispatch, play, play_table, prompt, request_table, response

from agentx_replay.analysis.fidelity import (
    Fidelity,
    excess,
    fidelity,
    length_errors,
    live_trees,
    shared_between_plays,
    skipped_s,
)
from agentx_replay.analysis.responses import Window
from agentx_replay.replay.ports import Phase, Status

WINDOW = Window(10 * SECOND, 20 * SECOND, 10.0)


def plays(*lives: tuple[int, int | None]) -> pa.Table:
    """Plays by the seconds at which they start and end."""
    return play_table(
        play(play_number=n, start_ns=start * SECOND, end_ns=end and end * SECOND)
        for n, (start, end) in enumerate(lives)
    )


def requests(*rows: tuple[dict[str, Any], dict[str, Any]]) -> pa.Table:
    """Requests of the window, sent at second 11 unless said otherwise."""
    usual = {"send_ns": 11 * SECOND, "end_ns": 12 * SECOND}
    return request_table((dispatch(**sent), response(**(usual | came))) for sent, came in rows)


def report(*rows: tuple[dict[str, Any], dict[str, Any]], **block_tokens: int) -> Fidelity:
    return fidelity(requests(*rows), plays((0, None)), WINDOW, 1, OF, block_tokens or {"x": 64})


def test_prompt_lengths_are_held_against_the_recorded_ones() -> None:
    found = report(
        *(({"recorded_input_tokens": 100}, {"prompt_tokens": n}) for n in (100, 100, 98, 105))
    ).prompt_lengths
    assert found is not None
    # Errors 0, 0, −2, +5: +3 of 400. P50 of −2, 0, 0, 5 is 0; P99 of 0, 0, 2, 5 is at rank 2.97.
    assert (found.count, found.share_exact, found.least, found.greatest) == (4, 0.5, -2, 5)
    assert found.p50 == 0.0
    assert found.p99_absolute == pytest.approx(2 + 0.97 * 3)
    assert found.aggregate == pytest.approx(3 / 400)


def test_answers_fed_back_are_of_the_prompts_that_were_to_say_one() -> None:
    says = (True, False, None, True)
    sent = [{"prompt": replace(prompt(100), says_answer=each)} for each in says]
    before_the_window = ({"prompt": sent[0]["prompt"]}, {"send_ns": 0})
    found = report(*((each, {}) for each in sent), before_the_window)
    assert (found.answers_fed_back, found.answers_due) == (2, 3)


def test_an_output_of_no_token_is_wanted_as_one_and_counted() -> None:
    found = report(
        ({"recorded_output_tokens": 0, "max_tokens": 1}, {"completion_tokens": 1}),
        ({"recorded_output_tokens": 10, "max_tokens": 10}, {"completion_tokens": 9}),
    )
    assert found.output_lengths is not None
    assert (found.output_lengths.least, found.output_lengths.greatest) == (-1, 0)
    assert found.raised_outputs == 1


def test_lengths_are_of_responses_that_are_in_the_metrics() -> None:
    found = report(
        ({}, {"prompt_tokens": 100}),
        ({}, {"prompt_tokens": 7, "status": Status.FAILED}),
        ({"phase": Phase.CACHE_PRESSURE}, {"prompt_tokens": 7}),
        ({}, {"prompt_tokens": 7, "send_ns": 9 * SECOND}),
        ({}, {"prompt_tokens": 7, "send_ns": 20 * SECOND}),
    )
    assert found.prompt_lengths is not None
    assert (found.prompt_lengths.count, found.prompt_lengths.share_exact) == (1, 1.0)


def test_a_server_that_tells_no_lengths_has_none() -> None:
    assert length_errors(pa.chunked_array([pa.array([None], pa.int32())]), _ints(5)) is None


def _ints(*values: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.int32())])


def reusing(tokens: int, shared: int, kept: int, session: str = "x") -> tuple[dict[str, Any], Any]:
    """A request whose prompt shares and keeps so many blocks."""
    of = {"session_id": session, "recorded_input_tokens": tokens, "prompt": prompt(tokens)}
    return of | {"shared_blocks": shared, "kept_blocks": kept}, {}


def test_reuse_is_what_was_sent_before_over_what_is_sent() -> None:
    # A partial block with an id: 21 of which 20 lie wholly inside 1,320 tokens.
    found = report(reusing(640, 9, 8), reusing(1320, 21, 20))
    assert found.reuse_sent == pytest.approx(64 * 28 / 1960)
    assert found.reuse_recorded == pytest.approx(64 * 29 / 1960)


def test_reuse_counts_blocks_of_the_size_that_each_session_has() -> None:
    found = report(reusing(100, 6, 5, "s16"), reusing(100, 1, 1, "s64"), s16=16, s64=64)
    assert found.reuse_sent == pytest.approx((5 * 16 + 64) / 200)
    assert found.reuse_recorded == pytest.approx((6 * 16 + 64) / 200)


def test_a_window_without_requests_has_no_reuse() -> None:
    found = report(({"phase": Phase.PRIMER}, {}))
    assert (found.reuse_sent, found.reuse_recorded, found.prompt_lengths) == (None, None, None)


@pytest.mark.parametrize(
    ("lives", "alive"),
    [
        ([(0, None), (0, None)], (2, 2)),
        # The second drains at 15 and the next begins at once.
        ([(0, None), (0, 15), (15, None)], (2, 2)),
        # A second without its tree.
        ([(0, None), (0, 15), (16, None)], (1, 2)),
        # Before and after the window nothing counts.
        ([(0, None), (0, 9), (5, 25), (26, None)], (2, 2)),
        # Ends as the window opens.
        ([(0, 10), (10, 20)], (1, 1)),
    ],
)
def test_trees_alive_at_every_moment_of_the_window(
    lives: Sequence[tuple[int, int | None]], alive: tuple[int, int]
) -> None:
    assert live_trees(plays(*lives), WINDOW) == alive


def test_what_all_lanes_skipped_is_counted_once_and_what_plays_skipped_by_themselves_summed() -> (
    None
):
    # (lane, play number, skipped by all, by itself): all skipped 5 s and then 2; lane 0 changed its
    # play between the two.
    rows = [
        play(lane=lane, play_number=number, system_skipped_s=of_all, session_skipped_s=of_one)
        for lane, number, of_all, of_one in ((0, 0, 5.0, 0.0), (0, 1, 2.0, 4.0), (1, 0, 7.0, 1.5))
    ]
    assert skipped_s(play_table(rows)) == (7.0, 5.5)


def test_what_was_skipped_is_not_known_of_plays_that_a_kill_cut_off() -> None:
    assert skipped_s(plays((0, None)).select(["lane", "start_ns"])) == (None, None)


def own(play_id: str, *block_ids: int, declared: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    sent = replace(prompt(100), block_ids=np.array(block_ids, np.uint64), declared_blocks=declared)
    return {"play_id": play_id, "prompt": sent}, {}


def test_a_block_past_the_declared_prefix_is_one_plays_alone() -> None:
    assert shared_between_plays(requests(own("a", 1, 2), own("b", 1, 3))) == 1
    assert shared_between_plays(requests(own("a", 1, 2), own("a", 1, 3))) == 0
    declared = requests(own("a", 1, 2, declared=1), own("b", 1, 3, declared=1), own("b"), own("a"))
    assert shared_between_plays(declared) == 0


def test_lateness_is_summarised_and_what_is_early_counted() -> None:
    found = excess(np.array([-1, 0, 1_000_000, 3_000_000], np.int64))
    assert found is not None
    assert (found.count, found.early) == (4, 1)
    assert found.p50_ms == pytest.approx(0.5)
    # Rank 2.97 between 1 and 3 ms.
    assert found.p99_ms == pytest.approx(1 + 0.97 * 2)
    assert found.greatest_ms == 3.0
    assert excess(np.array([], np.int64)) is None
