"""``agentx-replay docs``: the pages of documentation, from the installed package."""

from pathlib import Path

import click

from agentx_replay.cli.output import say
from agentx_replay.errors import UsageError, shown
from agentx_replay.shipped import shipped_directory


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a page of the documentation; without PAGE, which pages there are.

    \b
    agentx-replay docs
    agentx-replay docs metrics
    """
    files = {file.stem: file for file in shipped_directory("docs").glob("*.md")}
    if page is None:
        say("\n".join(f"{name:22}{_title(file)}" for name, file in sorted(files.items())))
        return
    file = files.get(page.removesuffix(".md"))
    if file is None:
        raise UsageError(
            "docs-page-unknown", f"there is no page {shown(page)}", _way_out(page, list(files))
        )
    say(file.read_text().rstrip())


def _title(file: Path) -> str:
    with file.open() as lines:
        return lines.readline().strip("# \n")


def _way_out(page: str, names: list[str]) -> str:
    from difflib import get_close_matches  # for a mistake alone

    nearest = get_close_matches(page, names, n=1)
    return f"use {nearest[0]}" if nearest else "agentx-replay docs lists them"
