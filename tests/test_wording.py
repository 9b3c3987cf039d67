import pytest

from agentx_replay.wording import counted, wrapped


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
