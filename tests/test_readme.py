"""What the README tells people to type is what is tested."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"```\n(.*?)```", README, flags=re.DOTALL)


def test_ci_runs_the_readmes_test_command_as_written() -> None:
    commands = [block.strip() for block in blocks() if "pytest" in block]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text().splitlines()


def test_every_page_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\((docs/[^)#]+)[^)]*\)", README)
    assert len(links) >= 8
    assert [link for link in links if not (ROOT / link).exists()] == []
