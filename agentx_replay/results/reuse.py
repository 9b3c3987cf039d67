"""What an unlimited prefix cache would have held, across all plays and workers of a point.

A play knows what it sent itself. What another play had sent before it, of a system prefix they
are to share, is known only when the records of all workers lie side by side in order of sending.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.schema import REQUESTS

NEEDED = ("lane", "replica", "reusable_tokens", "declared_prefix", "declared_tokens", "send_ns")


def reusable_tokens(files: Sequence[Path]) -> pa.Array:
    """Return, for each row of ``files`` in order, the leading tokens that had been sent before.

    A declared prefix counts as far as an earlier request of any play held it at the same server: a
    replica does not know what another has seen. Of requests sent in the same ns the lower lane is
    the earlier. Doing it again changes nothing.
    """
    table = read_parquet(files, REQUESTS, NEEDED)
    own = table["reusable_tokens"].to_numpy()
    declared = table["declared_tokens"].fill_null(0).to_numpy()
    order = np.lexsort((table["lane"].to_numpy(), table["send_ns"].to_numpy()))
    sent_before = np.zeros(len(own), np.int32)
    prefixes = table["declared_prefix"].to_pylist()
    replicas = table["replica"].fill_null(0).to_pylist()
    longest: dict[tuple[int, int], int] = {}
    for row in order.tolist():
        prefix = prefixes[row]
        if prefix is not None:
            held = (replicas[row], prefix)
            before = longest.get(held, 0)
            sent_before[row] = min(before, declared[row])
            longest[held] = max(before, declared[row])
    return pa.array(np.maximum(own, sent_before), pa.int32())


def with_reuse(table: pa.Table, reuse: pa.Array) -> pa.Table:
    """Return a table of requests with its ``reusable_tokens`` replaced."""
    at = table.schema.get_field_index("reusable_tokens")
    return table.set_column(at, table.schema.field(at), reuse)
