import re

import numpy as np
import pytest

from agentx_replay.report.chart import Axis, Chart, linear_axis, log_axis, number


def chart(**changes: object) -> Chart:
    usual = {"x": Axis(0, 10, ()), "y": Axis(0, 100, ((50, "50"),)), "title": "t"}
    return Chart(x_title="s", y_title="n", **(usual | changes))  # type: ignore[arg-type]


def paths(of: Chart) -> list[str]:
    return re.findall(r' d="([^"]*)"', of.html())[1:]  # the first is the grid


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (20, "20"), (1500, "1,500"), (40_000, "40k"), (1_200_000, "1.2M"), (-5, "-5")],
)
def test_a_tick_is_written_short(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 7, [0, 2, 4, 6]),
        (-40, 910, [0, 200, 400, 600, 800]),
        (5, 5, [5, 5.2, 5.4, 5.6, 5.8, 6]),
    ],
)
def test_a_linear_axis_has_round_ticks_inside_its_ends(
    low: float, high: float, ticks: list[float]
) -> None:
    assert [value for value, _ in linear_axis(low, high).ticks] == pytest.approx(ticks)


def test_a_logarithmic_axis_holds_its_values_between_ticks() -> None:
    assert [text for _, text in log_axis(7, 400).ticks] == [
        "5",
        "10",
        "20",
        "50",
        "100",
        "200",
        "500",
    ]
    assert [text for _, text in log_axis(0.02, 70_000).ticks] == [
        "0.1", "1", "10", "100", "1,000", "10k", "100k",
    ]  # fmt: skip
    axis = log_axis(1, 100)
    assert axis.place([1, 10, 100]).tolist() == pytest.approx([0, 0.5, 1])
    assert log_axis(5, 5).high == 10


def test_a_line_breaks_where_a_value_is_missing() -> None:
    of = chart()
    of.line(np.array([0.0, 5, 6, 10]), np.array([0.0, 50, np.nan, 100]), "s1")
    assert paths(of) == ["M0 1000L500 500M1000 0"]


def test_steps_hold_between_edges_and_dots_have_no_length() -> None:
    of = chart()
    of.steps(np.array([0.0, 5, 10]), np.array([50.0, 100]), "s1")
    of.dot(5, 50, "s2", "here")
    of.rows(np.array([0.25]), np.array([0.1]), np.array([0.5]), "run", 4.0)
    assert paths(of) == ["M0 500L500 500L500 0L1000 0", "M500 500h0", "M100 250h500"]


def test_nothing_to_draw_draws_nothing() -> None:
    of = chart()
    of.line(np.array([0.0]), np.array([np.nan]), "s1")
    of.rows(np.empty(0), np.empty(0), np.empty(0), "run", 4.0)
    assert paths(of) == []


def test_every_text_is_escaped() -> None:
    evil = '<script>alert("x")</script>'
    of = chart(title=evil, note=evil)
    of.dot(1, 1, "s1", evil)
    of.label(1, 1, evil)
    of.vertical(1, "target", evil)
    of.key("s1", evil)
    assert "<script" not in of.html()
    assert of.html().count("&lt;script&gt;") == 7


def test_an_interval_is_drawn_as_far_as_the_axes_go() -> None:
    of = chart()
    of.bar((-5.0, 40.0), (50.0, 50.0), "error")
    assert paths(of) == ["M0 500L1000 500"]
