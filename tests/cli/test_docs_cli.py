"""The documentation from the package, and completion of a shell's words."""

import pytest
from command_line import ROOT, finished, refusal


def test_without_a_page_it_lists_them_all() -> None:
    names = [line.split()[0] for line in finished("docs").stdout.splitlines()]
    assert names == sorted(file.stem for file in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", ["glossary", "glossary.md"])
def test_a_page_is_printed_whole(page: str) -> None:
    assert finished("docs", page).stdout == (ROOT / "docs" / "glossary.md").read_text()


def test_two_forms_of_one_output_are_refused() -> None:
    assert "[json-with-csv]" in refusal("report", "anywhere", "--json", "--csv")


def test_a_page_that_is_not_there_is_told_with_the_nearest() -> None:
    assert "use metrics" in refusal("docs", "metrik").lower()
    assert "\nagentx-replay docs lists them." in refusal("docs", "zzzzzz")


def test_a_shell_completes_commands_and_options() -> None:
    words = {"COMP_WORDS": "agentx-replay sweep --conc", "COMP_CWORD": "2"}
    done = finished(_AGENTX_REPLAY_COMPLETE="bash_complete", **words)
    assert done.stdout == "plain,--concurrency\n"
