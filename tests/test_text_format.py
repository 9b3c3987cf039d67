from pathlib import Path

import pytest
from refusals import refuses

from agentx_replay.report.page import write_page
from agentx_replay.text_format import beyond, counted, escaped, lasting, wrapped

UNSEEN = {
    "\0": "\\x00",
    "\x1b[31m": "\\x1b[31m",
    "\x9b": "\\x9b",
    "\r": "\\r",
    "\u200b": "\\u200b",  # a space of no width
    "\u202e": "\\u202e",  # turns the reading direction round
    "\u2066": "\\u2066",  # isolates a direction
    "\u2028": "\\u2028",
    "\ud83d": "\\ud83d",
    "\ufeff": "\\ufeff",
    "é 日本 🙂\n": "é 日本 🙂\n",
}


@pytest.mark.parametrize(("text", "shown"), UNSEEN.items())
def test_what_cannot_be_seen_is_escaped_in_texts_and_on_pages(
    text: str, shown: str, tmp_path: Path
) -> None:
    assert escaped(f"a{text}b") == f"a{shown}b"
    page = write_page(tmp_path / "page.html", f"<p>{text}</p>")
    assert page.read_bytes().decode() == f"<p>{shown}</p>"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 requests"), (1, "1 request"), (2, "2 requests"), (1234, "1,234 requests")],
)
def test_one_thing_is_one_thing(number: int, text: str) -> None:
    assert counted(number, "request") == text


def test_a_plural_of_its_own_is_said() -> None:
    assert counted(1, "process", "processes") == "1 process"
    assert counted(3, "process", "processes") == "3 processes"


def test_a_line_is_broken_between_words_and_goes_on_further_in() -> None:
    assert wrapped("  8: one two three", 12) == ["  8: one two", "    three"]
    assert wrapped("a/very-long/path on", 8) == ["a/very-long/path", "  on"]


@pytest.mark.parametrize(
    ("value", "limit", "digits", "unit", "text"),
    [
        (0.04, 0.025, 1, "%", "4.0%"), (0.02502, 0.025, 1, "%", "2.502%"),
        (0.857, 0.85, 0, "%", "86%"), (0.8511, 0.85, 0, "%", "85.1%"),
        (2.84, 2.849, 1, " s", "2.84 s"), (2.849, 2.84, 1, " s", "2.85 s"),
        (50.2, 50.0, 0, " ms", "50.2 ms"),
        (1.0, 1.0, 0, "%", "100.000000000%"),
    ],
)  # fmt: skip
def test_a_value_beyond_a_limit_does_not_read_like_it(
    value: float, limit: float, digits: int, unit: str, text: str
) -> None:
    assert beyond(value, limit, digits, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (119.4, "119 s"),
        (120.0, "2 min"),
        (3600.0, "60 min"),
        (7170.0, "2 h"),
        (19_200.0, "5 h 20 min"),
    ],
)
def test_a_length_of_time_has_its_unit(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


def test_a_page_takes_the_place_of_a_page_and_of_no_other_file(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "<!doctype html>old")
    assert write_page(page, "<!doctype html>new").read_text() == "<!doctype html>new"
    (kept := tmp_path / "sweep.json").write_text("{}")
    with refuses("page-would-overwrite", "sweep.json"):
        write_page(kept, "<!doctype html>")
    assert kept.read_text() == "{}"
