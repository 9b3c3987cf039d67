"""The client's own error from stamps on both sides. ms for the reader."""

from dataclasses import replace

import numpy as np
import pytest
from driven_load import driven

from agentx_replay.analysis.client_error import Driven, Load, Stamps, compare

MS = 1_000_000
TWO = Load(streams=2, rate=100.0, seconds=1.0, burst=True, timestamps="process")


def stamps(at_ms: float, *tokens_ms: float) -> Stamps:
    return round(at_ms * MS), np.array([round(t * MS) for t in tokens_ms], np.int64)


TRUTH = [stamps(1, 100, 110, 120, 130), stamps(2, 100, 110, 120, 130)]
SEEN = [stamps(0, 101, 111, 121, 131), stamps(0, 103, 112, 121, 130)]


def test_what_was_late_and_by_how_much() -> None:
    found = compare(TWO, SEEN, TRUTH, failed=0, cpu_share=0.1, late_events=2)
    assert found.late_event_share == 0.25
    # Three gaps in 30 ms a stream: 100 tok/s each.
    assert found.tokens_per_s == pytest.approx(200.0)
    assert found.planned_tokens_per_s == 200.0
    assert found.cpu_us_per_token == pytest.approx(500.0)  # 0.1 s of CPU for 200 tokens
    # Late by 1, 1, 1, 1 and 3, 2, 1, 0: sorted 0, 1, 1, 1, 1, 1, 2, 3.
    assert found.stamp_error_p50_s == pytest.approx(0.001)
    assert found.stamp_error_p99_s == pytest.approx(0.00293)  # rank 6.93: 2 + 0.93
    # TTFT 101 and 103 as seen, 99 and 98 at the server: 2 and 5 too long.
    assert found.ttft_error_p50_s == pytest.approx(0.0035)
    # Response ITL 10 and 9 ms as seen, P90 9.9; 10 in truth: 1 % off.
    assert found.itl_error == pytest.approx(0.01)
    assert found.limits == ()


def test_failures_leave_no_errors_to_tell_and_are_a_limit() -> None:
    found = compare(TWO, SEEN, TRUTH, failed=1, cpu_share=0.1)
    assert found.itl_error is None
    assert found.stamp_error_p50_s is None
    assert found.limits == ("1 of 2 responses failed",)


GOOD = driven(planned_tokens_per_s=400.0, tokens_per_s=399.0)


@pytest.mark.parametrize(
    ("of", "limits"),
    [
        (GOOD, ()),
        (replace(GOOD, itl_error=0.025), ()),
        (replace(GOOD, itl_error=0.026), ("the P90 ITL was 2.6% off (limit 2.5%)",)),
        (replace(GOOD, cpu_share=0.86), ("the client used 86% of a core",)),
        (replace(GOOD, tokens_per_s=388.0), ()),  # 97 % exactly
        (
            replace(GOOD, tokens_per_s=387.0),
            ("the server of this check sent 387 of 400 tok/s: its limit, maybe not the client's",),
        ),
    ],
)
def test_what_makes_a_load_too_much(of: Driven, limits: tuple[str, ...]) -> None:
    assert of.limits == limits
