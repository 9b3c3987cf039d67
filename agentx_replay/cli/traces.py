"""``agentx-replay traces``: what a corpus holds, whether it reads, and making one."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document, width
from agentx_replay.cli.values import Lengths, NamedPath, NewFile, Real, Seconds, Text, Whole
from agentx_replay.errors import UsageError
from agentx_replay.results.durable import disk_faults_explained, write_durably
from agentx_replay.shipped import shipped_directory
from agentx_replay.text_format import counted
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.files import LINES_SUFFIXES, packed
from agentx_replay.traces.model import RecordedRequest, Session

if TYPE_CHECKING:
    from agentx_replay.traces.importing.importing import Wanted

_GZIP_LEVEL = 1
"""Ids repeat so much that more effort halves the file and costs more than all else together."""


@click.group()
def traces() -> None:
    """Look at recorded sessions.

    \b
    agentx-replay traces stats
    agentx-replay traces check
    agentx-replay traces import claude-code --out own.jsonl.gz
    agentx-replay traces generate mine.jsonl --sessions 50 --seed 7
    agentx-replay traces pack mine.jsonl mine.jsonl.gz
    """


_CORPUS = click.argument(
    "corpus", type=NamedPath(path_type=Path), default=lambda: shipped_directory("traces")
)


@traces.command(cls=GroupedCommand, params=options_of("stats"))
@_CORPUS
@click.option(
    "--html",
    type=NamedPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page, with figures.",
)
def stats(corpus: Path, skip_bad: bool, as_json: bool, html: Path | None) -> None:
    """Print what CORPUS holds (default: the bundled sessions), beside other corpora.

    \b
    agentx-replay traces stats
    """
    from agentx_replay.report.page import corpus_page, write_page
    from agentx_replay.report.tables import sections_text
    from agentx_replay.report.traces_table import as_dict, statistics_sections
    from agentx_replay.traces.landmarks import PUBLIC, landmarks
    from agentx_replay.traces.statistics import corpus_statistics

    found = read_corpus(corpus, skip_bad=skip_bad)
    statistics = corpus_statistics(found, _agents_apart)
    corpora = [landmarks(found, statistics, "this"), PUBLIC]
    bundled = read_corpus(shipped_directory("traces"))
    if bundled.fingerprint != found.fingerprint:
        corpora.insert(1, landmarks(bundled, corpus_statistics(bundled), "bundled"))
    sections = statistics_sections(statistics, corpora)
    if html is not None:
        write_page(html, corpus_page(f"corpus {statistics.name}", sections))
    if as_json:
        say_document(as_dict(statistics, corpora))
        return
    say(sections_text(sections, width()))
    if html is not None:
        say(f"\n{html}")


def _agents_apart(session: Session) -> list[tuple[RecordedRequest, ...]]:
    """Return the main and flattened conversations, so that a reset is one agent's."""
    from agentx_replay.plan.conversations import build_graph
    from agentx_replay.plan.graph import OFFICIAL

    return [
        tuple(turn.request for turn in conversation.turns)
        for conversation in build_graph(session, OFFICIAL).conversations
        if not conversation.name.startswith("sa:")
    ]


@traces.command("import")
@click.argument("format_and_paths", nargs=-1, metavar="[FORMAT] [PATH]...")
@click.option(
    "--out",
    required=True,
    metavar="FILE",
    type=NewFile(),
    help="The corpus to write (.jsonl, .jsonl.gz or .jsonl.zst).",
)
@click.option(
    "--min-requests",
    default=3,
    show_default=True,
    type=Whole(1),
    help="Leave out sessions of fewer requests.",
)
@click.option(
    "--max-gap",
    type=Seconds(),
    metavar="DURATION",
    help="Split a session at longer pauses. Default: never.",
)
@click.option(
    "--since",
    type=click.DateTime(),
    metavar="DATE",
    help="Leave out sessions that began before (UTC).",
)
@click.option(
    "--until",
    type=click.DateTime(),
    metavar="DATE",
    help="Leave out sessions that began then or later (UTC).",
)
@click.option(
    "--project", type=Text(), metavar="GLOB", help="Keep only logs whose directory matches."
)
@click.option(
    "--assume-speed",
    type=Real(min=0.1, max=1e6),
    metavar="TOK/S",
    help="Give requests without a duration 1 s and their output at this speed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def import_(format_and_paths: tuple[str, ...], out: Path, as_json: bool, **filters: Any) -> None:
    """Turn logs of coding agents into a corpus without text: lengths, times and shared prefixes.

    FORMAT is claude-code, codex, mooncake, … or auto (the default), which looks into the files.
    Without PATH, the folders where Claude Code and Codex keep their logs are read.

    \b
    agentx-replay traces import --out own.jsonl.gz
    agentx-replay traces import claude-code --since 2026-01-01 --out recent.jsonl.gz
    """
    from agentx_replay.report.import_table import import_dict, import_sections
    from agentx_replay.report.tables import sections_text
    from agentx_replay.traces.importing.formats import split_format
    from agentx_replay.traces.importing.importing import prepare
    from agentx_replay.traces.importing.record import Ledger

    _check_corpus_name(out)
    name, paths = split_format(format_and_paths)
    ledger = Ledger()
    done = prepare(name, paths, _wanted(**filters), ledger)
    total_bytes = done.input_bytes()
    with click.progressbar(length=total_bytes, file=sys.stderr, hidden=as_json) as bar:
        ledger.read_bytes = bar.update
        _write_lines(done.lines(), out)
    if as_json:
        say_document(import_dict(done, str(out)))
        return
    say(sections_text(import_sections(done, str(out)), width()))


def _wanted(
    min_requests: int,
    max_gap: float | None,
    since: datetime | None,
    until: datetime | None,
    project: str | None,
    assume_speed: float | None,
) -> "Wanted":
    from agentx_replay.traces.importing.importing import Wanted

    return Wanted(
        least_requests=min_requests,
        since_ms=_utc_ms(since),
        until_ms=_utc_ms(until),
        project=project,
        most_pause_ms=None if max_gap is None else round(max_gap * 1000),
        assumed_tokens_per_s=assume_speed,
    )


def _utc_ms(when: datetime | None) -> int | None:
    return None if when is None else round(when.replace(tzinfo=UTC).timestamp() * 1000)


def _write_lines(lines: Iterator[bytes], out: Path) -> None:
    """Write lines to a file that is whole or, after an error or an interrupt, not there."""

    def write(file: BinaryIO) -> None:
        packing: Future[bytes] | None = None
        with ThreadPoolExecutor(1) as packer:  # while one is packed, the next session is read
            for line in lines:
                if packing is not None:
                    file.write(packing.result())
                packing = packer.submit(packed, line, out.suffix, _GZIP_LEVEL)
            if packing is not None:
                file.write(packing.result())

    with disk_faults_explained(out):
        write_durably(out, write)


@traces.command()
@_CORPUS
def check(corpus: Path) -> None:
    """Read every session of CORPUS (default: the bundled ones) and name each that cannot be read.

    Also says whether they hold text: strings that are no name or kind of the format.

    \b
    agentx-replay traces check
    """
    from agentx_replay.traces.texts import texts_in

    found = read_corpus(corpus, skip_bad=True)
    for name, reason in found.skipped:
        say(reason if name in reason else f"{name}: {reason}")
    bad = f"{len(found.skipped)} could not be read" if found.skipped else "none unreadable"
    say(f"{counted(len(found.sessions), 'session')} read, {bad}")
    texts = [f"{counted(n, 'string')} in {field}" for field, n in texts_in(corpus).items()]
    say(f"holds text: {', '.join(texts)}" if texts else "holds no text")
    if found.skipped:
        raise click.exceptions.Exit(1)


@traces.command()
@click.argument("corpus", type=NamedPath(path_type=Path))
@click.argument("file", type=NewFile())
def pack(corpus: Path, file: Path) -> None:
    """Write the sessions of CORPUS to one FILE (.jsonl.gz).

    \b
    agentx-replay traces generate mine.jsonl --sessions 5
    agentx-replay traces pack mine.jsonl mine.jsonl.gz
    """
    from agentx_replay.traces.corpus import pack_corpus

    say(f"{counted(pack_corpus(corpus, file), 'session')} packed into {file}")


@traces.command()
@click.argument("file", type=NewFile())
@click.option("--sessions", default=36, show_default=True, type=Whole(1, 100_000))
@click.option("--seed", default=0, show_default=True, type=Whole(0))
@click.option(
    "--shape",
    default="large",
    show_default=True,
    type=click.Choice(["small", "medium", "large"]),
    help="Contexts of up to 4,000, 31,000 or 200,000 tokens.",
)
@click.option(
    "--fixed",
    type=Lengths(),
    metavar="IN/OUT",
    help="One turn a session, of so many tokens, as in 8192/1024; for the scenario fixed.",
)
@click.option(
    "--sharing",
    default=0.0,
    type=Real(0.0, 1.0),
    metavar="SHARE",
    help="Of --fixed, the part of the prompt that all share. Default: 0.",
)
def generate(
    file: Path,
    sessions: int,
    seed: int,
    shape: str,
    fixed: tuple[int, int] | None,
    sharing: float,
) -> None:
    """Write synthetic sessions to FILE: drawn from published statistics, or of fixed lengths.

    FILE ends in .jsonl, .jsonl.gz or .jsonl.zst.

    \b
    agentx-replay traces generate mine.jsonl.gz --sessions 5 --seed 7
    agentx-replay traces generate 8k.jsonl.gz --fixed 8192/1024 --sharing 0 --sessions 64
    """
    _check_corpus_name(file)
    if fixed is None and sharing:
        raise UsageError("sharing-without-fixed", "--sharing goes with --fixed", "add --fixed")
    from agentx_replay.traces.fixed import fixed_corpus
    from agentx_replay.traces.generate import LARGE, MEDIUM, SMALL, generate_corpus, write_corpus

    limits = {"small": SMALL, "medium": MEDIUM, "large": LARGE}[shape]
    made: Iterable[dict[str, Any]] = (
        generate_corpus(seed, sessions, limits, shape)
        if fixed is None
        else fixed_corpus(*fixed, sessions, sharing)
    )
    write_corpus(made, file)
    say(f"{counted(sessions, 'session')} written to {file}")


def _check_corpus_name(file: Path) -> None:
    if not file.name.endswith(LINES_SUFFIXES):
        raise UsageError(
            "corpus-name-unfit",
            f"{file} is not named like a corpus",
            f"use a name that ends in {', '.join(LINES_SUFFIXES)}",
        )
    if file.exists():
        raise UsageError("corpus-exists", f"{file} exists", "remove it, or name a file that is new")
