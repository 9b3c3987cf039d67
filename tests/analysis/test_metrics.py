from dataclasses import replace
from typing import Any

import pytest
from record_cases import MS, SECOND, dispatch, prompt, recorded, response, summarised

from agentx_replay.analysis.responses import Records, Window, observed_window, sent_in
from agentx_replay.analysis.tokens import latency_series
from agentx_replay.replay.ports import ErrorCategory, Phase, Response, Status

# A window of 10 s that opens 100 s after the point's origin.
OPEN = 100 * SECOND
WINDOW = Window(OPEN, OPEN + 10 * SECOND, 10.0)


def at(second: float) -> int:
    return OPEN + round(second * SECOND)


def came(send_s: float, first_s: float, *later_s: float, end_s: float, **more: object) -> Response:
    return response(
        send_ns=at(send_s),
        arrival_ns=[at(s) for s in (first_s, *later_s)],
        end_ns=at(end_s),
        **{"completion_tokens": 1 + len(later_s), **more},
    )


def by_hand() -> Records:
    """A window with ramp, drain and cut in it.

    =====  ======  ======  ==========================  ====  ======  ======
    lane   send s  first   later tokens at             end   prompt  cached
    =====  ======  ======  ==========================  ====  ======  ======
    0      1.0     2.0     3.0 4.0                     4.5   100     40
    1      8.0     9.0     9.5 10.5 11.0               12.0  200     160
    0      9.5     10.0    10.2                        10.4  300     200
    1      9.9     9.95    9.98, alive at the grace    13.0  50      ?
    =====  ======  ======  ==========================  ====  ======  ======
    """
    return recorded(
        [
            (
                dispatch(lane=0, recorded_input_tokens=100, prompt=prompt(100, 50), max_tokens=3),
                came(1, 2, 3, 4, end_s=4.5, prompt_tokens=100, cached_tokens=40),
            ),
            (
                dispatch(lane=1, recorded_input_tokens=199, prompt=prompt(200, 170), max_tokens=4),
                came(8, 9, 9.5, 10.5, 11, end_s=12, prompt_tokens=200, cached_tokens=160),
            ),
            (
                dispatch(lane=0, recorded_input_tokens=302, prompt=prompt(300, 260), max_tokens=2),
                came(9.5, 10, 10.2, end_s=10.4, prompt_tokens=300, cached_tokens=200),
            ),
            (
                dispatch(lane=1, recorded_input_tokens=50, prompt=prompt(50, 50), max_tokens=9),
                came(
                    9.9, 9.95, 9.98, end_s=13, status=Status.CUT,
                    prompt_tokens=None, completion_tokens=None,
                ),
            ),
        ]
    )  # fmt: skip


def test_overall_throughput_is_all_tokens_of_ok_responses_over_first_send_to_last_end() -> None:
    overall = summarised(by_hand(), WINDOW).rates.overall
    assert overall is not None
    # Prompts 100 + 200 + 300, completions 3 + 4 + 2, from 1.0 s to 12.0 s; cached 400.
    assert overall.total_tokens_per_s == pytest.approx(609 / 11)
    assert overall.uncached_tokens_per_s == pytest.approx(209 / 11)
    assert overall.output_tokens_per_s == pytest.approx(9 / 11)


def test_the_phase_is_from_the_opening_to_the_end_of_the_last_request_or_of_the_window() -> None:
    phase = summarised(by_hand(), WINDOW).rates.phase
    assert phase is not None
    # The cut response ended last, at 13.0 s; its tokens do not count.
    assert phase.total_tokens_per_s == pytest.approx(609 / 13)
    idle_tail = recorded([(dispatch(max_tokens=2), came(1, 2, 3, end_s=4, prompt_tokens=98))])
    phase = summarised(idle_tail, WINDOW).rates.phase
    assert phase is not None
    assert phase.total_tokens_per_s == pytest.approx(100 / 10)  # ended at 4 s of 10


@pytest.mark.parametrize(("nominal_s", "name"), [(899.9, "windowed"), (900.0, "overall")])
def test_the_headline_is_windowed_where_the_scenarios_window_is_under_900_s(
    nominal_s: float, name: str
) -> None:
    rates = summarised(by_hand(), replace(WINDOW, nominal_s=nominal_s)).rates
    assert rates.headline_is == name
    assert rates.headline == getattr(rates, name)
    assert rates.headline != rates.beside
    assert rates.beside in (rates.windowed, rates.overall)


def test_windowed_throughput_counts_tokens_when_they_happen_inside_the_window() -> None:
    windowed = summarised(by_hand(), WINDOW).rates.windowed
    assert windowed is not None
    # Prompts at first tokens before 10 s: 100 + 200, and 50 of the cut one (its planned length);
    # the one at 10.0 s is outside. Outputs: 3 + 2 (9.0, 9.5) + 2 of the cut one, where an event
    # is worth (3 + 4 + 2) / 9 = 1 token.
    assert windowed.total_tokens_per_s == pytest.approx((350 + 7) / 10)
    assert windowed.output_tokens_per_s == pytest.approx(7 / 10)
    # Cached: 40 + 160, and 400/600 of the cut one's 50.
    assert windowed.uncached_tokens_per_s == pytest.approx((350 - 200 - 50 * 2 / 3 + 7) / 10)


def test_the_difference_of_the_two_is_drain_cut_and_ramp() -> None:
    difference = summarised(by_hand(), WINDOW).rates.difference
    assert difference is not None
    assert difference.drained_tokens == pytest.approx(304)  # 300 + 2 and the tokens at 10.5, 11
    assert difference.cut_tokens == pytest.approx(52)
    assert difference.ramp_s == pytest.approx(1.0)
    assert difference.drain_s == pytest.approx(2.0)
    # 609 − 304 + 52 = 357 tokens in 10 s against 609 in 10 − 1 + 2 = 11 s.
    assert difference.relative == pytest.approx(35.7 / (609 / 11) - 1)


def test_latencies_are_over_measured_responses_of_the_window() -> None:
    summary = summarised(by_hand(), WINDOW)
    assert summary.ttft is not None
    assert summary.response_itl is not None
    assert (summary.ttft.count, summary.response_itl.count) == (3, 3)
    assert summary.ttft.p50_s == pytest.approx(1.0)  # 1.0, 1.0, 0.5
    # ITL: 2 s / 2, 2 s / 3, 0.2 s / 1 = 1, 0.6667, 0.2; rank 1.8: 0.6667 + 0.8 · 0.3333.
    assert summary.response_itl.p90_s == pytest.approx(2 / 3 + 0.8 / 3)
    assert summary.interactivity == pytest.approx(1 / (2 / 3 + 0.8 / 3))
    assert summary.token_itl is not None
    assert summary.token_itl.count == 6  # gaps 1, 1, .5, 1, .5, .2
    assert summary.token_itl.p50_s == pytest.approx(0.75)  # between the third and the fourth
    assert summary.event_gap is not None
    assert summary.event_gap.max_s == pytest.approx(1.0)
    assert summary.end_to_end is not None
    assert summary.end_to_end.max_s == pytest.approx(4.0)


def test_cache_hit_measured_and_theoretical_are_over_the_same_responses() -> None:
    summary = summarised(by_hand(), WINDOW)
    assert summary.cache_hit == pytest.approx(400 / 600)
    assert summary.cache_hit_theoretical == pytest.approx(480 / 600)  # 50 + 170 + 260


def test_prompt_lengths_are_compared_with_the_recording() -> None:
    lengths = summarised(by_hand(), WINDOW).prompt_lengths
    assert lengths is not None
    assert lengths.count == 3
    assert lengths.mean_tokens == pytest.approx(200.0)  # (100 + 200 + 300) / 3
    assert lengths.share_exact == pytest.approx(1 / 3)
    assert lengths.largest_error_tokens == -2
    assert lengths.aggregate_error == pytest.approx(-1 / 601)  # (0 + 1 − 2) / (100 + 199 + 302)


def test_the_last_ttft_and_the_last_itl_are_seen_at_their_tokens() -> None:
    summary = summarised(by_hand(), WINDOW)
    assert summary.last_ttft_s == pytest.approx(10.0)
    assert summary.last_itl_s == pytest.approx(11.0)


BAD = [
    (Status.FAILED, ErrorCategory.RESET),
    (Status.OVERFLOW, ErrorCategory.CONTEXT_OVERFLOW),
    (Status.CUT, None),
]


@pytest.mark.parametrize(("status", "category"), BAD)
def test_a_response_that_ended_badly_is_in_no_latency_and_in_every_count(
    status: Status, category: ErrorCategory | None
) -> None:
    good = (dispatch(max_tokens=2), came(1, 2, 2.02, end_s=3))
    why = {"error_category": category, "error_text": category and "no GPU"}
    bad = (dispatch(), came(1, 9, 9.9, end_s=9.95, status=status, **why))
    summary = summarised(recorded([good, bad]), WINDOW)
    for found in (summary.ttft, summary.response_itl, summary.token_itl, summary.end_to_end):
        assert found is not None
        assert found.count == 1
    assert summary.counts.sent == 2
    assert getattr(summary.counts, status.value) == 1
    assert summary.counts.measured == 1
    expected = () if category is None else ((category.value, 1),)
    assert summary.counts.categories == expected
    assert summary.counts.first_errors == (() if category is None else ((status.value, "no GPU"),))


def test_a_length_mismatch_is_counted_and_measured() -> None:
    summary = summarised(recorded([(dispatch(max_tokens=9), came(1, 2, 2.02, end_s=3))]), WINDOW)
    assert summary.counts.length_mismatch == 1
    assert summary.ttft is not None
    assert summary.rates.headline is not None


def test_warm_up_and_what_was_sent_outside_the_window_are_not_in_the_set() -> None:
    pairs = [
        (dispatch(turn=1, phase=Phase.CACHE_PRESSURE), came(1, 2, end_s=3)),
        (dispatch(turn=2), came(-0.5, 1, end_s=2)),
        (dispatch(turn=3), came(0, 1, end_s=2)),
        (dispatch(turn=4), came(10, 11, end_s=12)),
    ]
    assert sent_in(recorded(pairs).responses, WINDOW).send_ns.tolist() == [OPEN]


def test_a_measured_response_without_usage_makes_throughput_unknown_not_smaller() -> None:
    pairs = [
        (dispatch(max_tokens=1), came(1, 2, end_s=3)),
        (dispatch(), came(1, 2, end_s=3, prompt_tokens=None, completion_tokens=None)),
    ]
    summary = summarised(recorded(pairs), WINDOW)
    assert summary.counts.without_usage == 1
    assert summary.rates.headline is None
    assert summary.rates.windowed is None


@pytest.mark.parametrize("cached", [None, 1000])
def test_cache_counts_that_are_all_untold_or_above_the_prompt_leave_the_hit_rate_unknown(
    cached: int | None,
) -> None:
    one = (dispatch(max_tokens=1), came(1, 2, end_s=3, prompt_tokens=100, cached_tokens=cached))
    summary = summarised(recorded([one]), WINDOW)
    assert summary.cache_hit is None
    for rates in (summary.rates.headline, summary.rates.windowed):
        assert rates is not None
        assert rates.uncached_tokens_per_s is None


def test_silence_about_cached_tokens_is_0_where_the_server_tells_of_others() -> None:
    pairs = [
        (dispatch(max_tokens=1), came(1, 2, end_s=3, cached_tokens=50)),
        (dispatch(max_tokens=1), came(1, 2, end_s=3)),
    ]
    assert summarised(recorded(pairs), WINDOW).cache_hit == pytest.approx(0.25)


def test_a_cache_count_above_the_prompt_is_taken_for_silence_and_counted() -> None:
    pairs = [
        (dispatch(max_tokens=1), came(1, 2, end_s=3, prompt_tokens=100, cached_tokens=100)),
        (dispatch(max_tokens=1), came(1, 2, end_s=3, prompt_tokens=100, cached_tokens=101)),
        (dispatch(), came(1, 2, end_s=3, status=Status.CUT, prompt_tokens=1, cached_tokens=9)),
    ]
    summary = summarised(recorded(pairs), WINDOW)
    assert summary.cache_hit == pytest.approx(100 / 200)
    assert summary.rates.overall is not None
    # Prompts 200, completions 2, of the prompts 100 cached, in 2 s.
    assert summary.rates.overall.uncached_tokens_per_s == pytest.approx(102 / 2)
    assert summary.counts.cached_above_prompt == 1
    assert summarised(recorded(pairs[:1]), WINDOW).counts.cached_above_prompt == 0


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 0, "completion_tokens": 0, "end_s": 3},
        {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "end_s": 3},
        {"prompt_tokens": 100, "completion_tokens": 1, "end_s": 1},
    ],
)
def test_no_tokens_or_no_time_is_no_throughput(usage: dict[str, Any]) -> None:
    summary = summarised(recorded([(dispatch(), came(1, 1, **usage))]), WINDOW)
    assert (summary.rates.headline, summary.rates.windowed) == (None, None)
    assert summary.counts.measured == 1


def test_nothing_measured_is_a_summary_without_numbers() -> None:
    for pairs in ([], [(dispatch(), came(1, 2, end_s=3, status=Status.FAILED))]):
        nobody = recorded([(dispatch(phase=Phase.PRIMER), response()), *pairs])
        summary = summarised(nobody, WINDOW)
        assert summary.counts.sent == len(pairs)
        assert summary.ttft is None
        assert summary.interactivity is None
        assert summary.rates.headline is None
        assert summary.cache_hit is None
        assert summary.cache_hit_theoretical is None
        assert summary.prompt_lengths is None
        assert (summary.last_ttft_s, summary.last_itl_s) == (None, None)


@pytest.mark.parametrize(("arrivals_s", "whole"), [((2, 2), 1), ((2,), 0)])
def test_several_tokens_in_one_arrival_have_no_itl_and_one_token_is_none_of_them(
    arrivals_s: tuple[int, ...], whole: int
) -> None:
    sent = dispatch(max_tokens=len(arrivals_s))
    summary = summarised(recorded([(sent, came(1, *arrivals_s, end_s=3))]), WINDOW)
    assert (summary.response_itl, summary.interactivity) == (None, None)
    assert summary.itl_error.in_one_arrival == whole


def test_the_log_holds_the_same_observations_at_the_time_of_their_events() -> None:
    series = {s.tag: s for s in latency_series(by_hand(), WINDOW)}
    assert {tag: len(s.at_ns) for tag, s in series.items()} == {
        "token_itl": 6,
        "event_gap": 6,
        "ttft": 3,
        "response_itl": 3,
        "e2e": 3,
        "send_lag": 4,
    }
    assert series["ttft"].at_ns.tolist() == [at(2), at(9), at(10)]
    assert series["ttft"].value_ns.tolist() == [1 * SECOND, 1 * SECOND, 500 * MS]
    assert series["e2e"].at_ns.tolist() == [at(4.5), at(12), at(10.4)]


def test_the_window_of_a_killed_run_is_what_its_records_show() -> None:
    pairs = [
        (dispatch(phase=Phase.PRIMER, intended_start_ns=5), response()),
        (dispatch(intended_start_ns=at(0.5)), came(1, 2, end_s=3)),
    ]
    assert observed_window(recorded(pairs).responses, 10.0) == Window(at(0.5), at(3), 10.0)
    assert observed_window(recorded(pairs).responses, 2.0) == Window(at(0.5), at(2.5), 2.0)
    assert observed_window(recorded(pairs[:1]).responses, 10.0) is None


def test_an_ok_response_without_token_events_counts_its_prompt_at_its_end() -> None:
    silent = response(send_ns=at(1), end_ns=at(3), completion_tokens=0, prompt_tokens=100)
    rates = summarised(recorded([(dispatch(max_tokens=0), silent)]), WINDOW).rates
    assert rates.windowed is not None
    assert rates.windowed.total_tokens_per_s == pytest.approx(10.0)
