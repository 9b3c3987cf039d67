"""The drawing of corpora side by side: where the median and P90 stand on a logarithmic scale."""

from dataclasses import replace

from agentx_replay.report.landmarks_section import landmarks_sections
from agentx_replay.traces.landmarks import PUBLIC, Landmarks, Middle

ONE = Landmarks("one", Middle(1), Middle(1, 1e21), Middle(0, 0), Middle(3), 0.5, 0.6, 0.0)


def test_medians_and_p90_stand_where_their_logarithms_do() -> None:
    """22 columns from 1 to 1e21: a decade each, so 1,000 is the fourth."""
    other = replace(ONE, name="other", input_tokens=Middle(1e3, 1e6))
    drawing, shares = landmarks_sections([ONE, other])
    cells = {(row[0], row[1]): row[2:] for row in drawing.rows}
    assert cells["input tokens", "one"][0] == "●" + "─" * 20 + "┤"
    assert [row[2] for row in drawing.rows if row[1] == "other"][1] == "   ●──┤" + " " * 15
    assert shares.rows[1] == ["reuse with standing prompts shared", "60.0%", "60.0%"]
    assert "<svg" in drawing.figures


def test_a_figure_that_is_not_published_is_a_dash() -> None:
    drawing, shares = landmarks_sections([ONE, PUBLIC])
    assert drawing.rows[1][2:] == ["                     ●", "45.5", "–"]
    assert shares.rows[1][2] == "–"
