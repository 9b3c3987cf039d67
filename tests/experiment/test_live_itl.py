"""The ITL on the screen is the report's: of each response, and of the last half minute."""

from typing import Any

import pytest
from record_cases import MS, SECOND, Nowhere, dispatch, recorded, response

from agentx_replay.analysis.latency import present, response_itl
from agentx_replay.experiment.live_view import live_itls_s
from agentx_replay.replay.ports import Response
from agentx_replay.results.recent import Recent, snapshot_of


def at_ms(*times_ms: float, **more: Any) -> Response:
    return response(arrival_ns=[round(t * MS) for t in times_ms], **more)


FOUR_FIRST = at_ms(0, 20, 40, 60, 80, arrival_tokens=[4, 1, 1, 1, 1], completion_tokens=8)
"""Four tokens after the first event in 80 ms. By completion tokens − 1 it were 80 / 7 = 11.4 ms."""


@pytest.mark.parametrize(
    ("came", "itls_ms"),
    [
        (FOUR_FIRST, [20.0]),
        # Two events of one read are one arrival: 3 tokens in 30 ms after it.
        (at_ms(0, 0, 10, 20, 30, completion_tokens=5), [10.0]),
        # 9 tokens in 3 events, shared out evenly: 6 after the first event, in 60 ms.
        (at_ms(0, 30, 60, completion_tokens=9), [10.0]),
        # By the lengths of their texts: 2 of 12 bytes came first, so 5/6 of 12 tokens in 60 ms.
        (at_ms(0, 30, 60, completion_tokens=12, event_text_bytes=[2, 5, 5]), [6.0]),
        (at_ms(0, completion_tokens=1), []),
        (at_ms(completion_tokens=0), []),
        (at_ms(0, 20, completion_tokens=None), []),
    ],
)
def test_a_response_has_the_itl_of_the_report(came: Response, itls_ms: list[float]) -> None:
    assert live_itls_s([came]) == pytest.approx([itl_ms / 1e3 for itl_ms in itls_ms])
    of_report = present(response_itl(recorded([(dispatch(), came)]).responses).itl_ns) / 1e6
    assert of_report.tolist() == pytest.approx(itls_ms)


def test_several_at_once_keep_their_order() -> None:
    slow = at_ms(1000, 1050, completion_tokens=2)
    assert live_itls_s([FOUR_FIRST, at_ms(completion_tokens=0), slow]) == pytest.approx(
        [0.020, 0.050]
    )


def test_the_screen_shows_the_p90_of_the_last_half_minute() -> None:
    now_ns = 0
    recent = Recent(Nowhere(), live_itls_s, lambda: now_ns)
    for itl_ms in range(1, 12):
        recent.record(dispatch(), at_ms(0, itl_ms, completion_tokens=2, end_ns=SECOND))
    assert snapshot_of([recent.glimpse()]).itl_p90_s == pytest.approx(0.010)
    now_ns = 32 * SECOND
    assert snapshot_of([recent.glimpse()]).itl_p90_s is None
