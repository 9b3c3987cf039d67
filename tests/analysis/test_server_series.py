import numpy as np
import pytest

from agentx_replay.analysis.server import (
    CacheAgreement,
    Samples,
    break_evens,
    cache_agreement,
    gauge_over_time,
    growth,
    metrics_of,
    speculation,
)
from agentx_replay.analysis.timeline import Requests
from agentx_replay.analysis.window import Window
from agentx_replay.results.server_metrics import NAMES, Metric, Series, ServerSamples

S = 1_000_000_000
WINDOW = Window(100 * S, 110 * S, 10.0)
NAN = np.nan


def told(*rows: tuple[str, str, str, float, float]) -> dict[Metric, tuple[Samples, ...]]:
    """Rows of endpoint, name, labels, second of the window, value."""
    samples = ServerSamples()
    for endpoint, name, labels, at_s, value in rows:
        metric = next(m for m, known, _ in NAMES if known == name)
        at_ns = round((100 + at_s) * S)
        samples.add(endpoint, at_ns, Series(metric, name, labels), value)
    return dict(metrics_of(samples.take(8), WINDOW))


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


def test_of_an_engine_and_the_router_before_it_the_engine_is_believed() -> None:
    found = told(
        ("router", "dynamo_frontend_inflight_requests", "", 1, 9),
        ("engine", "vllm:num_requests_running", 'engine="0"', 1, 4),
        ("engine", "vllm:num_requests_running", 'engine="1"', 1, 3),
    )
    assert [samples.labels for samples in found[Metric.RUNNING]] == ['engine="0"', 'engine="1"']
    assert found[Metric.RUNNING][0].at_s.tolist() == [1.0]


def requests(cached: float = 80.0, prompt: float = 100.0) -> Requests:
    """Four requests, one of them with its first token after the window."""
    first_s = np.array([1.0, 2.0, 3.0, 11.0])
    return Requests(
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
    # 240 of 300 tokens in both, by the three prompts whose first token came inside.
    agreement = cache_agreement(counters(240, 300), requests(), 10.0)
    assert agreement is not None
    assert agreement == CacheAgreement(0.8, 0.8, 0.0)
    assert agreement.disagreement is None


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (CacheAgreement(0.80, 0.805, 0.01), None),
        (CacheAgreement(0.80, 0.90, 0.01), "80.0% of prompt tokens were cached"),
        (CacheAgreement(0.80, 0.80, 0.30), "30% more prompt tokens than this run sent"),
    ],
)
def test_a_disagreement_is_said(agreement: CacheAgreement, words: str | None) -> None:
    if words is None:
        assert agreement.disagreement is None
    else:
        assert agreement.disagreement is not None
        assert words in agreement.disagreement


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
