"""The responses of a point on disk, read as often as needed: the same rows in the same order.

A fold over token events reads them group by group and never holds them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from agentx_replay.results.compaction import is_part, request_files
from agentx_replay.results.parquet import read_groups, read_parquet
from agentx_replay.results.reuse import reusable_tokens, with_reuse
from agentx_replay.results.schema import REQUESTS


@dataclass(frozen=True, slots=True)
class StoredRequests:
    """The files that held a point's responses at one moment: parts, or one whole file."""

    files: tuple[Path, ...]

    @classmethod
    def of(cls, point: Path) -> "StoredRequests":
        """Return what is in a point's directory now, whatever state a crash left it in."""
        return cls(tuple(request_files(point)))

    def table(self, names: tuple[str, ...] | None = None) -> pa.Table:
        """Return all rows; only columns ``names``, if given.

        Raises ``UsageError`` for a file that cannot be read.
        """
        table = read_parquet(self.files, REQUESTS, names)
        reuse = self._reuse(names)
        return table if reuse is None else with_reuse(table, reuse)

    def groups(self, names: tuple[str, ...]) -> Iterator[pa.Table]:
        """Yield all rows in tables of at most about two million token events, columns ``names``.

        Raises ``UsageError`` for a file that cannot be read.
        """
        reuse, row = self._reuse(names), 0
        for table in read_groups(self.files, REQUESTS, names):
            if reuse is not None:
                table = with_reuse(table, reuse.slice(row, len(table)))
            row += len(table)
            yield table

    def _reuse(self, names: tuple[str, ...] | None) -> pa.Array | None:
        """Return what each row could reuse, where parts do not say it yet."""
        asked = names is None or "reusable_tokens" in names
        return reusable_tokens(self.files) if asked and any(map(is_part, self.files)) else None
