"""pi's sessions: one file each, with the true start and end of every call."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentx_replay.traces.importing.lines import (
    milliseconds,
    objects,
    record,
    span_ms,
    text,
    tokens,
)
from agentx_replay.traces.importing.record import ImportedSession, Ledger
from agentx_replay.traces.importing.sharing import Call, by_cache, one_stream


def read_pi(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    for file in files:
        with ledger.refusing():
            if calls := list(_calls(file, ledger)):
                yield one_stream(file.name, calls, by_cache, str(file.parent))


def _calls(file: Path, ledger: Ledger) -> Iterator[Call]:
    compacted = False
    for place, line in objects(file, ledger):
        compacted |= line.get("type") == "compaction"
        message = record(line, "message")
        usage = record(message, "usage")
        if message.get("role") != "assistant":
            continue
        read, written = tokens(usage, "cacheRead", place), tokens(usage, "cacheWrite", place)
        whole = tokens(usage, "input", place) + read + written
        end_ms = milliseconds(line.get("timestamp"))
        if not whole:
            ledger.leave_out("answer without usage (aborted)")
        else:
            yield Call(
                start_ms=span_ms(place, "timestamp", message.get("timestamp")),
                end_ms=end_ms,
                input_tokens=whole,
                output_tokens=tokens(usage, "output", place),
                model=text(message, "model"),
                cached_tokens=read,
                written_tokens=written,
                compacted=compacted,
            )
            compacted = False
