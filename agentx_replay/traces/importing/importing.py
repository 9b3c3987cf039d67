"""An import from paths to lines: reading, filters, and what there is to tell of it."""

import fnmatch
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentx_replay.errors import UsageError
from agentx_replay.traces.importing.block_rows import with_durations
from agentx_replay.traces.importing.formats import (
    AUTO,
    FORMATS,
    Format,
    log_files,
    named,
    recognised,
)
from agentx_replay.traces.importing.record import ImportedSession, Ledger, Notes
from agentx_replay.traces.importing.splitting import split_at_pauses
from agentx_replay.traces.importing.writer import Totals, Writer

_SALT_BYTES = 32


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions an import keeps. Instants are ms since 1970; ``most_pause_ms`` splits.

    ``assumed_tokens_per_s`` gives requests without a duration one.
    """

    least_requests: int = 1
    since_ms: int | None = None
    until_ms: int | None = None
    project: str | None = None
    most_pause_ms: int | None = None
    assumed_tokens_per_s: float | None = None

    def keeps(self, session: ImportedSession, ledger: Ledger) -> bool:
        """Whether a session is kept; one that is not is counted."""
        start_ms = session.requests[0].start_ms
        if self.since_ms is not None and start_ms < self.since_ms:
            ledger.leave_out("session before --since")
        elif self.until_ms is not None and start_ms >= self.until_ms:
            ledger.leave_out("session after --until")
        elif self.project and not fnmatch.fnmatch(session.project, self.project):
            ledger.leave_out("session of another --project")
        elif len(session.all_requests()) < self.least_requests:
            ledger.leave_out(f"session of fewer than {self.least_requests} requests")
        else:
            return True
        return False


@dataclass(slots=True)
class Import:
    """One import: ``lines`` yields each session's JSON, and the rest is filled as it goes."""

    files: dict[str, list[Path]]
    wanted: Wanted
    ledger: Ledger
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(_SALT_BYTES))
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.writer = Writer(self.salt, self.ledger)

    @property
    def formats(self) -> list[Format]:
        return [each for each in FORMATS if each.name in self.files]

    @property
    def notes(self) -> Notes:
        return self.writer.notes

    @property
    def totals(self) -> Totals:
        return self.writer.totals

    def input_bytes(self) -> int:
        return sum(file.stat().st_size for files in self.files.values() for file in files)

    def lines(self) -> Iterator[bytes]:
        """Yield each session as a line. Raises ``UsageError`` if there is none."""
        for each in self.formats:
            for session in each.read(self.files[each.name], self.ledger):
                timed = with_durations(session, self.wanted.assumed_tokens_per_s)
                yield from self._written(split_at_pauses(timed, self.wanted.most_pause_ms))
        if not self.totals.sessions:
            raise UsageError(
                "import-without-session",
                "\n  ".join(("no session is left to write", *self._why())),
                "name other paths, or lower --min-requests",
            )

    def _written(self, sessions: Iterable[ImportedSession]) -> Iterator[bytes]:
        for session in sessions:
            if self.wanted.keeps(session, self.ledger) and (line := self.writer.line(session)):
                yield line

    def _why(self) -> list[str]:
        left_out = [f"{number} × {what}" for what, number in self.ledger.left_out.items()]
        return [*self.ledger.refused, *left_out]


def prepare(format_name: str, paths: Sequence[Path], wanted: Wanted, ledger: Ledger) -> Import:
    """Return the import of ``paths``, or of the folders where the format's tool keeps its logs.

    Raises ``UsageError`` for a path that does not exist, and if there is no log.
    """
    chosen = FORMATS if format_name == AUTO else (named(format_name),)
    given = paths or [folder for each in chosen for folder in each.folders() if folder.is_dir()]
    files = log_files(given)
    if not files:
        asked = ", ".join(map(str, paths)) or "the usual folders"
        raise UsageError(
            "import-without-log", f"there is no log in {asked}", "name a log or a directory of logs"
        )
    if format_name != AUTO:
        return Import({format_name: files}, wanted, ledger)
    return Import(recognised(files, given, ledger), wanted, ledger)
