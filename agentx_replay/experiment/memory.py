"""What a level may take in memory while it runs, at most: told before it starts.

Each process has its program, the corpus, raw events up to a bound and records up to a bound; the
text of the live plays is shared out among them. Not for: reading the records afterwards, which
takes memory by the number of responses.
"""

from dataclasses import dataclass

from agentx_replay.endpoint.between_polls import MAX_HELD_BYTES
from agentx_replay.plan.selection import Selection
from agentx_replay.results.recorder import BACKLOG_EVENTS, EVENT_BYTES
from agentx_replay.text_format import counted

PROGRAM_BYTES = 130_000_000
"""Most that ``agentx-replay run`` on the bundled sessions ever held, all it loads included: it came
to 122 to 124 MB in three runs, rounded up.
"""

_REQUEST_BYTES = 600
"""A recorded request and its turn, as Python objects."""


@dataclass(frozen=True, slots=True)
class LevelMemory:
    """Bounds in bytes over all ``processes`` of a level."""

    processes: int
    program_bytes: int
    corpus_bytes: int
    text_bytes: int
    raw_event_bytes: int
    record_bytes: int

    @property
    def total_bytes(self) -> int:
        """The bound as a whole."""
        parts = (self.program_bytes, self.corpus_bytes, self.text_bytes)
        return sum(parts) + self.raw_event_bytes + self.record_bytes

    def lines(self) -> tuple[str, str]:
        """Return the bound and what it consists of, in lines of at most 90 columns."""
        processes = counted(self.processes, "process", "processes")
        return (
            f"memory: at most {_mb(self.total_bytes)} MB in {processes}; of that, in MB:",
            f"  program {_mb(self.program_bytes)}, corpus {_mb(self.corpus_bytes)}, text "
            f"{_mb(self.text_bytes)}, events {_mb(self.raw_event_bytes)}, records "
            f"{_mb(self.record_bytes)}",
        )


def level_memory(selection: Selection, text_bytes: int, workers: int) -> LevelMemory:
    """Return the bound of a level whose live plays hold ``text_bytes`` of text.

    With one worker there is one process; with more there is one beside them, which plays nothing.
    """
    processes = workers if workers == 1 else workers + 1
    return LevelMemory(
        processes=processes,
        program_bytes=processes * PROGRAM_BYTES,
        corpus_bytes=processes * _corpus_bytes(selection),
        text_bytes=text_bytes,
        raw_event_bytes=workers * MAX_HELD_BYTES,
        record_bytes=workers * BACKLOG_EVENTS * EVENT_BYTES,
    )


def _corpus_bytes(selection: Selection) -> int:
    return sum(
        session.blocks.parent.nbytes
        + session.blocks.run_first.nbytes
        + len(session.requests()) * _REQUEST_BYTES
        for session in selection.sources
    )


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f}"
