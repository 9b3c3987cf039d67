"""``agentx-replay traces``: what a corpus holds, whether it reads, and making one."""

from pathlib import Path

import click

from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document, width
from agentx_replay.cli.values import NamedPath, Whole
from agentx_replay.errors import UsageError
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import RecordedRequest, Session
from agentx_replay.wording import counted


@click.group()
def traces() -> None:
    """Look at recorded sessions.

    \b
    agentx-replay traces stats
    agentx-replay traces check
    agentx-replay traces generate mine.jsonl --sessions 50 --seed 7
    agentx-replay traces pack mine.jsonl mine.jsonl.gz
    """


_CORPUS = click.argument(
    "corpus", type=NamedPath(path_type=Path), default=lambda: shipped_directory("traces")
)


@traces.command(cls=GroupedCommand, params=options_of("stats"))
@_CORPUS
def stats(corpus: Path, skip_bad: bool, as_json: bool) -> None:
    """Print what CORPUS holds (default: the bundled sessions).

    \b
    agentx-replay traces stats
    """
    from agentx_replay.report.tables import sections_text
    from agentx_replay.report.traces_table import as_dict, statistics_sections
    from agentx_replay.traces.statistics import corpus_statistics

    found = read_corpus(corpus, skip_bad=skip_bad)
    statistics = corpus_statistics(found, _agents_apart)
    if as_json:
        say_document(as_dict(statistics))
        return
    say(sections_text(statistics_sections(statistics), width()))


def _agents_apart(session: Session) -> list[tuple[RecordedRequest, ...]]:
    """Return the main and flattened conversations, so that a reset is one agent's."""
    from agentx_replay.plan.conversations import build_graph
    from agentx_replay.plan.graph import OFFICIAL

    return [
        tuple(turn.request for turn in conversation.turns)
        for conversation in build_graph(session, OFFICIAL).conversations
        if not conversation.name.startswith("sa:")
    ]


@traces.command()
@_CORPUS
def check(corpus: Path) -> None:
    """Read every session of CORPUS (default: the bundled ones) and name each that cannot be read.

    \b
    agentx-replay traces check
    """
    found = read_corpus(corpus, skip_bad=True)
    for name, reason in found.skipped:
        say(reason if name in reason else f"{name}: {reason}")
    bad = f"{len(found.skipped)} could not be read" if found.skipped else "none unreadable"
    say(f"{counted(len(found.sessions), 'session')} read, {bad}")
    if found.skipped:
        raise click.exceptions.Exit(1)


@traces.command()
@click.argument("corpus", type=NamedPath(path_type=Path))
@click.argument("file", type=NamedPath(path_type=Path, dir_okay=False))
def pack(corpus: Path, file: Path) -> None:
    """Write the sessions of CORPUS to one FILE (.jsonl.gz).

    \b
    agentx-replay traces generate mine.jsonl --sessions 5
    agentx-replay traces pack mine.jsonl mine.jsonl.gz
    """
    from agentx_replay.traces.corpus import pack_corpus

    say(f"{counted(pack_corpus(corpus, file), 'session')} packed into {file}")


@traces.command()
@click.argument("file", type=NamedPath(path_type=Path, dir_okay=False))
@click.option("--sessions", default=36, show_default=True, type=Whole(1, 100_000))
@click.option("--seed", default=0, show_default=True, type=Whole(0))
@click.option(
    "--shape",
    default="large",
    show_default=True,
    type=click.Choice(["small", "medium", "large"]),
    help="Contexts of up to 4,000, 31,000 or 200,000 tokens.",
)
def generate(file: Path, sessions: int, seed: int, shape: str) -> None:
    """Write synthetic sessions to FILE (.jsonl or .jsonl.gz), drawn from published statistics.

    \b
    agentx-replay traces generate mine.jsonl.gz --sessions 5 --seed 7
    """
    if not file.name.endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(
            "corpus-name-unfit",
            f"{file} is not named like a corpus",
            "use a name in .jsonl or .jsonl.gz",
        )
    if file.exists():
        raise UsageError("corpus-exists", f"{file} exists", "remove it, or name a file that is new")
    from agentx_replay.traces.generate import LARGE, MEDIUM, SMALL, generate_corpus, write_corpus

    limits = {"small": SMALL, "medium": MEDIUM, "large": LARGE}[shape]
    write_corpus(generate_corpus(seed, sessions, limits, shape), file)
    say(f"{counted(sessions, 'session')} written to {file}")
