from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from agentx_replay.results.histograms import (
    Series,
    fold,
    lowest_equal_ns,
    new_histogram,
    write_log,
)

SECOND = 1_000_000_000
MS = 1_000_000


def series(tag: str, seen: list[tuple[float, float]]) -> Series:
    """Observations as (second, milliseconds)."""
    return Series(
        tag,
        np.array([at * SECOND for at, _ in seen], float),
        np.array([value * MS for _, value in seen], float),
    )


def read(path: Path) -> list[HdrHistogram]:
    reader = HistogramLogReader(str(path), new_histogram())
    found = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found.append(histogram)
    reader.input_file.close()
    return found


def test_an_observation_is_in_the_interval_of_its_event() -> None:
    observed = series("ttft", [(0, 1), (9.999, 2), (10, 3), (35, 4)])
    counts = {interval: h.get_total_count() for _, interval, h in fold([observed])}
    assert counts == {0: 2, 1: 1, 3: 1}


def test_nothing_observed_is_no_interval() -> None:
    assert list(fold([series("ttft", [])])) == []


def test_percentiles_agree_to_three_digits() -> None:
    # 1 to 1000 ms once each: the 90th percentile is 900 ms.
    observed = series("e2e", [(1, value) for value in range(1, 1001)])
    ((_, _, histogram),) = fold([observed])
    assert histogram.get_value_at_percentile(90) == pytest.approx(900 * MS, rel=1e-3)
    assert histogram.get_value_at_percentile(50) == pytest.approx(500 * MS, rel=1e-3)


def test_fractional_counts_keep_their_sum() -> None:
    thirds = Series("token_itl", np.zeros(9), np.full(9, 20.0 * MS), np.full(9, 1 / 3))
    ((_, _, histogram),) = fold([thirds])
    assert histogram.get_total_count() == 3


def test_a_series_in_pieces_is_the_series() -> None:
    # Quarters of a count, two a piece: alone each piece would round to 0, together they are 1.
    quarters = Series("token_itl", np.zeros(2), np.full(2, 20.0 * MS), np.full(2, 0.25))
    found = fold([quarters, series("ttft", [(0, 5)]), quarters])
    counts = {(tag, interval): h.get_total_count() for tag, interval, h in found}
    assert counts == {("token_itl", 0): 1, ("ttft", 0): 1}


def test_values_beyond_an_hour_count_as_an_hour_and_below_zero_as_zero() -> None:
    observed = series("e2e", [(0, 5 * 3_600_000), (0, -4)])
    ((_, _, histogram),) = fold([observed])
    assert histogram.get_total_count() == 2
    assert histogram.get_max_value() == pytest.approx(3600 * SECOND, rel=1e-3)
    assert histogram.get_value_at_percentile(1) <= 512


@pytest.mark.parametrize(
    "value_ns", [0, 511, 512, 1000, 1 << 20, (1 << 20) + 511, 20 * MS, 3600 * SECOND]
)
def test_values_that_are_equal_are_those_of_hdr_histogram(value_ns: int) -> None:
    lowest_ns = new_histogram().get_lowest_equivalent_value(value_ns)
    assert lowest_equal_ns(np.array([float(value_ns)])) == lowest_ns


def test_the_log_is_read_by_hdr_histograms_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "latency.hlog"
    write_log(
        path,
        [series("ttft", [(12, 250)]), series("event_gap", [(3, 20), (4, 20), (12, 30)])],
        origin_unix_s=1_760_000_000.0,
    )
    found = read(path)
    assert [(h.get_tag(), h.get_total_count()) for h in found] == [
        ("event_gap", 2),
        ("event_gap", 1),
        ("ttft", 1),
    ]
    assert [h.get_start_time_stamp() / 1000 - 1_760_000_000 for h in found] == [0, 10, 10]
    assert [h.get_end_time_stamp() / 1000 - 1_760_000_000 for h in found] == [10, 20, 20]
    assert found[2].get_max_value() == pytest.approx(250 * MS, rel=1e-3)


def test_the_log_says_its_version_and_maxima_in_ms(tmp_path: Path) -> None:
    path = tmp_path / "latency.hlog"
    write_log(path, [series("ttft", [(0, 0.25)])], origin_unix_s=0.0)
    lines = path.read_text().splitlines()
    assert lines[0] == "#[Histogram log format version 1.3]"
    assert lines[4].startswith("Tag=ttft,0.000,10.000,0.250,HIST")
