"""What the README tells people to type is what is tested."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"```\n(.*?)```", README, flags=re.DOTALL)


def test_ci_runs_the_readmes_test_command_as_written() -> None:
    commands = [block.strip() for block in blocks() if "pytest" in block]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text().splitlines()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings}


def test_the_readme_links_to_every_page() -> None:
    links = re.findall(r"\]\((docs/[^)#]+\.md)[^)]*\)", README)
    assert sorted({ROOT / link for link in links}) == PAGES[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link
