import numpy as np
import pytest
from record_cases import server_table

from agentx_replay.analysis import findings
from agentx_replay.analysis.responses import Window
from agentx_replay.analysis.server import (
    Samples,
    break_evens,
    cache_agreement,
    gauge_over_time,
    growth,
    mean_alive_at,
    metrics_of,
    speculation,
)
from agentx_replay.analysis.timeline import Timeline
from agentx_replay.results.server_names import Metric

S = 1_000_000_000
WINDOW = Window(100 * S, 110 * S, 10.0)
NAN = np.nan


def told(*rows: tuple[str, str, str, float, float]) -> dict[Metric, tuple[Samples, ...]]:
    """Rows of endpoint, name, labels, second of the window, value."""
    scrapes = [
        (endpoint, round((100 + at_s) * S), [f"{name}{{{labels}}} {value!r}"])
        for endpoint, name, labels, at_s, value in rows
    ]
    return dict(metrics_of(server_table(scrapes), WINDOW))


def test_requests_add_up_over_engines_and_shares_are_averaged() -> None:
    edges_s = np.array([0.0, 2.0, 4.0, 6.0])
    one = Samples("", np.array([0.5, 1.5, 4.5]), np.array([2.0, 4.0, 1.0]))
    two = Samples("", np.array([1.0, 4.1]), np.array([10.0, 0.0]))
    running = gauge_over_time(Metric.RUNNING, (one, two), edges_s)
    assert running.tolist() == pytest.approx([13.0, NAN, 1.0], nan_ok=True)  # (2 + 4) / 2 + 10
    usage = gauge_over_time(Metric.KV_USAGE, (one, two), edges_s)
    assert usage.tolist() == pytest.approx([6.5, NAN, 0.5], nan_ok=True)


def test_a_counter_that_falls_has_begun_again_from_0() -> None:
    at_s, steps = growth(Samples("", np.arange(4.0), np.array([5.0, 8.0, 2.0, 3.0])))
    assert at_s.tolist() == [1.0, 2.0, 3.0]
    assert steps.tolist() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("values", "at_s", "steps"),
    [
        ((50.0, 0.0, 150.0, 100.0, 250.0), [2.0, 4.0], [100.0, 100.0]),
        ((1000.0, 1200.0, 1100.0), [1.0], [200.0]),  # of the last it cannot be told
        ((1000.0, 1200.0, 50.0, 150.0), [1.0, 2.0, 3.0], [200.0, 50.0, 100.0]),  # a restart
        ((7.0,), [], []),
    ],
)
def test_an_older_page_after_a_newer_one_is_no_restart(
    values: tuple[float, ...], at_s: list[float], steps: list[float]
) -> None:
    samples = Samples("", np.arange(float(len(values))), np.array(values))
    assert [found.tolist() for found in growth(samples)] == [at_s, steps]


def test_samples_that_were_written_out_of_order_are_put_in_order() -> None:
    found = told(*(("e", "vllm:prompt_tokens_total", "", at_s, 10.0 * at_s) for at_s in (2, 1, 3)))
    assert found[Metric.PROMPT_TOKENS][0].values.tolist() == [10.0, 20.0, 30.0]


def test_of_an_engine_and_the_router_before_it_the_engine_is_believed() -> None:
    found = told(
        ("router", "dynamo_frontend_inflight_requests", "", 1, 9),
        ("engine", "vllm:num_requests_running", 'engine="0"', 1, 4),
        ("engine", "vllm:num_requests_running", 'engine="1"', 1, 3),
    )
    assert [samples.labels for samples in found[Metric.RUNNING]] == ['engine="0"', 'engine="1"']
    assert found[Metric.RUNNING][0].at_s.tolist() == [1.0]


def test_engines_of_two_kinds_behind_one_page_add_up_without_their_router() -> None:
    found = told(
        ("router", "dynamo_frontend_inflight_requests", "", 1, 9),
        ("router", "dynamo_frontend_queued_requests", "", 1, 2),
        ("router", "vllm:num_requests_running", 'worker="0"', 1, 4),
        ("router", "sglang:num_running_reqs", 'worker="1"', 1, 5),
        ("router", "trtllm_num_requests_running", "", 1, 6),
        ("router", "trtllm_num_active_requests", "", 1, 6),  # the same engine's other name
        ("router", "vllm:gpu_cache_usage_perc", "", 1, 0.5),  # its older name
        ("router", "vllm:kv_cache_usage_perc", "", 1, 0.5),
    )
    values = {metric: [each.values.tolist() for each in of] for metric, of in found.items()}
    assert values == {
        Metric.RUNNING: [[5.0], [6.0], [4.0]],
        Metric.WAITING: [[2.0]],
        Metric.KV_USAGE: [[0.5]],
    }


def test_counts_that_are_divided_are_of_the_engines_that_tell_both() -> None:
    found = told(
        ("e", "vllm:prefix_cache_queries_total", "", 1, 100.0),
        ("e", "vllm:prefix_cache_hits_total", "", 1, 80.0),
        ("e", "sglang:prompt_tokens_total", "", 1, 50.0),  # an older one, which tells no hits
        ("e", "vllm:spec_decode_num_drafts_total", "", 1, 10.0),
        ("e", "vllm:spec_decode_num_accepted_tokens_total", "", 1, 7.0),
        ("e", "trtllm_spec_decode_accepted_tokens_total", "", 1, 9.0),
    )
    assert [each.values.tolist() for each in found[Metric.CACHE_QUERIES]] == [[100.0]]
    assert [each.values.tolist() for each in found[Metric.ACCEPTED_TOKENS]] == [[7.0]]


def test_counts_that_no_kind_of_engine_tells_whole_are_not_divided() -> None:
    found = told(
        ("e", "vllm:prefix_cache_queries_total", "", 1, 100.0),
        ("e", "sglang:cached_tokens_total", "", 1, 80.0),
        ("e", "vllm:spec_decode_num_drafts_total", "", 1, 10.0),
        ("e", "trtllm_spec_decode_drafted_tokens_total", "", 1, 50.0),
        ("e", "trtllm_spec_decode_accepted_tokens_total", "", 1, 40.0),
        ("e", "vllm:num_requests_running", "", 1, 3.0),
    )
    assert list(found) == [Metric.RUNNING]


def test_replicas_of_two_versions_count_each_by_the_best_name_on_its_own_page() -> None:
    found = told(
        ("a", "vllm:gpu_cache_usage_perc", "", 1, 0.9),
        ("b", "vllm:kv_cache_usage_perc", "", 1, 0.1),
        ("b", "vllm:gpu_cache_usage_perc", "", 1, 0.3),  # told for a while beside its new name
        ("a", "trtllm_num_active_requests", "", 1, 7.0),
        ("b", "trtllm_num_requests_running", "", 1, 5.0),
    )
    edges_s = np.array([0.0, 2.0])
    means = {m: gauge_over_time(m, of, edges_s).tolist() for m, of in found.items()}
    assert means == {
        Metric.KV_USAGE: pytest.approx([0.5]),  # of 0.9 and 0.1
        Metric.RUNNING: pytest.approx([12.0]),
    }


def test_a_line_without_labels_is_the_total_of_those_beside_it_on_its_page() -> None:
    per_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    found = told(
        ("a", "vllm:num_requests_running", 'worker_id="0"', 1, 3.0),
        ("a", "vllm:num_requests_running", 'worker_id="1"', 1, 4.0),
        ("a", "vllm:num_requests_running", "", 1, 7.0),
        ("b", "vllm:num_requests_running", 'engine="0"', 1, 2.0),
        ("b", "vllm:num_requests_running", 'engine="1"', 1, 1.0),
        ("a", per_position, "", 1, 9.0),
        ("a", per_position, 'position="0"', 1, 6.0),
    )
    values = {metric: [each.values.tolist() for each in of] for metric, of in found.items()}
    assert values[Metric.RUNNING] == [[7.0], [2.0], [1.0]]
    assert [6.0] in values[Metric.ACCEPTED_AT]  # what is by position a total cannot tell


def test_values_that_no_metric_can_have_are_passed_over() -> None:
    found = told(
        *(("e", "vllm:num_requests_running", "", n, value)
          for n, value in enumerate((-1e308, 3.0, 1e308, -1.0, 4.0)))
    )  # fmt: skip
    assert found[Metric.RUNNING][0].values.tolist() == [3.0, 4.0]


def requests(cached: float = 80.0, prompt: float = 100.0) -> Timeline:
    """Four requests, one of them with its first token after the window."""
    first_s = np.array([1.0, 2.0, 3.0, 11.0])
    return Timeline(
        lane=np.zeros(4, np.int64), is_main=np.ones(4, bool), good=np.ones(4, bool),
        send_s=first_s - 1, first_s=first_s, end_s=first_s + 1,
        prompt=np.full(4, prompt), cached=np.full(4, cached),
        planned=np.full(4, prompt), reusable=np.full(4, cached),
    )  # fmt: skip


def counters(hits: float, queries: float) -> dict[Metric, tuple[Samples, ...]]:
    """Counters that grew so in the window, and before and after it too."""
    rows: list[tuple[str, str, str, float, float]] = []
    for name, value in (("hits", hits), ("queries", queries)):
        known = f"vllm:prefix_cache_{name}_total"
        rows += [
            ("e", known, "", at_s, grown)
            for at_s, grown in ((-5, 7.0), (0, 50.0), (9, 50.0 + value), (12, 999.0 + value))
        ]
    return told(*rows)


def test_server_and_client_agree_where_both_count_the_same() -> None:
    # 240 of 300 tokens in both, by the three prompts whose first token came between the scrapes at
    # 0 and 9 s. The first of them was sent at 0 s, and may have been counted before that scrape:
    # without it 160 of 200, and only its 20 computed or its 80 cached tokens may be there too.
    agreement = cache_agreement(counters(240, 300), requests(), 10.0)
    assert agreement is not None
    assert agreement.server_hit == pytest.approx(0.8)
    assert agreement.client_hit == pytest.approx(0.8)
    assert agreement.least_hit == pytest.approx(160 / 220)
    assert agreement.most_hit == pytest.approx(1 - 40 / 280)
    assert agreement.foreign_share == 0
    assert not any(findings.cache_agreement(agreement))


@pytest.mark.parametrize("queries", [200, 250, 300])
def test_a_prompt_under_way_at_a_scrape_may_be_counted_on_either_side_or_in_part(
    queries: float,
) -> None:
    agreement = cache_agreement(counters(0.8 * queries, queries), requests(), 10.0)
    assert agreement is not None
    assert not any(findings.cache_agreement(agreement))


@pytest.mark.parametrize(
    ("send_s", "end_s", "queries", "beyond"),
    [
        # 20 prompts of 100 tokens between the scrapes at 0 and 9 s, and one more of 1,000 tokens
        (-3.0, -1.5, 3000, 0.0),  # ended before the first scrape, whose page may be that old
        (-3.0, -2.5, 3000, 0.5),  # no page is that old
        (-3.0, 20.0, 3000, 0.0),  # under way all the time: counted when scheduled, or finished
        (8.0, 20.0, 2000, 0.0),  # sent before the last scrape, not yet counted or not yet told
        (6.0, 7.5, 2000, 0.0),  # ended before it: its page may be older
        (3.0, 6.5, 2000, 2000 / 3000 - 1),  # no page is that old
        (9.5, 20.0, 3000, 0.5),  # sent after the last scrape, so not in it
    ],
)
def test_a_prompt_under_way_while_a_page_may_be_from_is_counted_on_either_side(
    send_s: float, end_s: float, queries: float, beyond: float
) -> None:
    sent = np.append(np.linspace(1.0, 5.0, 20), send_s)
    ends = np.append(np.linspace(1.5, 5.5, 20), end_s)
    prompt = np.append(np.full(20, 100.0), 1000.0)
    made = Timeline(
        lane=np.zeros(21, np.int64), is_main=np.ones(21, bool), good=np.ones(21, bool),
        send_s=sent, first_s=sent + 0.1, end_s=ends,
        prompt=prompt, cached=prompt / 2, planned=prompt, reusable=prompt / 2,
    )  # fmt: skip
    agreement = cache_agreement(counters(queries / 2, queries), made, 10.0)
    assert agreement is not None
    assert agreement.foreign_share == pytest.approx(beyond)
    assert any(findings.cache_agreement(agreement)) == (beyond != 0.0)


@pytest.mark.parametrize(
    ("hits", "queries", "beyond"),
    [(320, 400, 400 / 300 - 1), (80, 100, 100 / 200 - 1)],
)
def test_tokens_looked_up_are_held_against_the_most_and_the_least_this_run_can_have_sent(
    hits: float, queries: float, beyond: float
) -> None:
    agreement = cache_agreement(counters(hits, queries), requests(), 10.0)
    assert agreement is not None
    assert agreement.foreign_share == pytest.approx(beyond)
    assert any(findings.cache_agreement(agreement))


def test_counters_of_several_engines_add_up_each_over_its_own_scrapes() -> None:
    found = told(*(
        (engine, f"vllm:prefix_cache_{name}_total", "", at_s, value)
        for engine, first_s, last_s, name, before, after in (
            ("a", -0.25, 8.5, "queries", 10, 210), ("a", -0.25, 8.5, "hits", 5, 165),
            ("b", -0.5, 9.5, "queries", 70, 170), ("b", -0.5, 9.5, "hits", 0, 80),
        )
        for at_s, value in ((first_s, before), (last_s, after), (10.5, 999))
    ))  # fmt: skip
    agreement = cache_agreement(found, requests(), 10.0)
    assert agreement is not None
    assert agreement.server_hit == pytest.approx(240 / 300)  # 160 and 80 of 200 and 100
    assert not any(findings.cache_agreement(agreement))


def test_llama_cpp_counts_cached_tokens_apart_from_those_it_processed() -> None:
    found = told(*(
        ("e", f"llamacpp:prompt_tokens_{name}total", "", at_s, value)
        for name, value_at_9 in (("", 60.0), ("cached_", 240.0))
        for at_s, value in ((0, 0.0), (9, value_at_9))
    ))  # fmt: skip
    agreement = cache_agreement(found, requests(), 10.0)
    assert agreement is not None
    assert agreement.server_hit == pytest.approx(240 / 300)
    assert not any(findings.cache_agreement(agreement))


def test_nothing_is_compared_that_was_not_told() -> None:
    assert cache_agreement({}, requests(), 10.0) is None
    assert cache_agreement(counters(1, 2), requests(cached=NAN), 10.0) is None


# --- speculative decoding ------------------------------------------------------------------------


def test_the_published_break_even_comes_out() -> None:
    # 3 drafts commit 3.00 tokens a cycle, 4 commit 3.36: the fourth is accepted in 36 % of cycles.
    last, following = break_evens((0.80, 0.66, 0.54, 0.36))
    assert last == pytest.approx(0.12)
    assert following == pytest.approx(0.36 / 3.36)  # one more is accepted no more often
    assert break_evens(()) == (None, None)


def test_counters_tell_tokens_a_cycle_and_acceptance_by_position() -> None:
    names = {"drafts": 100, "draft_tokens": 200, "accepted_tokens": 130}
    rows = [
        ("e", f"vllm:spec_decode_num_{name}_total", "", at_s, value * (at_s > 0))
        for name, value in names.items()
        for at_s in (0.0, 9.0)
    ]
    rows += [
        ("e", "vllm:spec_decode_num_accepted_tokens_per_pos_total", f'position="{k}"', at_s,
         value * (at_s > 0))
        for k, value in ((0, 80), (1, 50))
        for at_s in (0.0, 9.0)
    ]  # fmt: skip
    found = speculation(told(*rows), 10.0)
    assert found is not None
    assert found.accept_length == pytest.approx(2.3)  # 130 accepted in 100 cycles, and one each
    assert found.drafted_tokens == pytest.approx(2.0)
    assert found.accepted == pytest.approx((0.8, 0.5))
    assert found.last_pays_below == pytest.approx(2.3 / 1.8 - 1)


def test_a_gauge_alone_tells_the_acceptance_length() -> None:
    name = "sglang:spec_accept_length"
    found = speculation(
        told(("e", name, "", 1, 3.0), ("e", name, "", 2, 3.4), ("e", name, "", 3, 0)), 10
    )
    assert found is not None
    assert found.accept_length == pytest.approx(3.2)  # 0 is an engine that decoded nothing yet
    assert (found.accepted, found.last_pays_below) == ((), None)


def test_a_server_that_does_not_draft_tells_nothing() -> None:
    assert speculation({}, 10.0) is None


def test_how_many_are_alive_at_given_instants_is_the_mean_of_these() -> None:
    start_s, end_s = np.array([0.0, 1.0, 5.0]), np.array([4.0, 2.0, 9.0])
    # At 1 s two, at 2 s one (it ends there); none asked from 2.5 to 5; at 5 s one.
    at_s = np.array([1.0, 2.0, 5.0])
    found = mean_alive_at(start_s, end_s, at_s, np.array([0.0, 2.5, 5.0, 7.5]))
    assert found.tolist() == pytest.approx([1.5, np.nan, 1.0], nan_ok=True)
