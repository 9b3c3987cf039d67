"""How sections are written for a terminal, as Markdown and as CSV."""

from agentx_replay.report.tables import (
    Section,
    csv_text,
    sections_markdown,
    sections_text,
)

TABLE = Section(
    "Speeds", heads=("run", "fast\ntok/s", "b"), rows=[["a", "1,234", "7"]], notes=["so"]
)


def test_a_table_is_as_wide_as_its_widest_cells_and_units_stand_below() -> None:
    assert sections_text([TABLE], 80).splitlines() == [
        "Speeds",
        "run   fast  b",
        "     tok/s",
        "-------------",
        "a    1,234  7",
        "so",
    ]


def test_columns_that_do_not_fit_follow_below_with_the_name_of_their_row() -> None:
    lines = sections_text([TABLE], 12).splitlines()
    assert lines[1:] == [
        "run   fast",
        "     tok/s",
        "----------",
        "a    1,234",
        "run  b",
        "------",
        "a    7",
        "so",
    ]


def test_sentences_are_wrapped_and_a_section_without_words_is_left_out() -> None:
    shown = Section("A", reasons=["one two three"], facts=[("b", "four")], figures="<svg>")
    assert sections_text([Section("B", figures="<svg>"), shown], 9).splitlines() == [
        "A", "one two", "  three", "b: four",
    ]  # fmt: skip


def test_markdown_escapes_what_would_be_markup() -> None:
    text = sections_markdown([Section("A", heads=("x", "y\nz"), rows=[["a|b", "<i>"]])])
    assert text == "### A\n\n| x | y z |\n| --- | ---: |\n| a\\|b | \\<i> |"


def test_csv_has_a_heading_and_leaves_empty_what_is_not_there() -> None:
    assert csv_text([{"a": 1, "b": None}, {"a": 2.5, "b": "x,y"}]) == 'a,b\n1,\n2.5,"x,y"'
