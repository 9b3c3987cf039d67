"""The plays that a kill cut off: known from their responses, as nobody could write their own rows.

A play is put on record when it has ended, or when the run does. Of one that has responses on record
and no row of its own, only what had ended by the kill is known.
"""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa

_COLUMNS = ("play_id", "lane", "play_number", "session_id", "start_ns", "end_ns")


def cut_off_plays(requests: pa.Table, plays: pa.Table) -> frozenset[tuple[int, int]]:
    """Return the (lane, play number) of plays that have responses on record and no own row."""
    return frozenset(_keys(requests) - _keys(plays))


def with_live_plays(requests: pa.Table, plays: pa.Table) -> pa.Table:
    """Return the plays with those that were cut off (``_COLUMNS``).

    A lane's next play starts where the one before it ended; where that is not on record, the one
    before ended no later than the next one's first request. The last of a lane has no end: it lived
    on, or was followed at once by another.
    """
    known = {(row["lane"], row["play_number"]): row for row in plays.select(_COLUMNS).to_pylist()}
    for row in _first_requests(requests):
        known.setdefault((row["lane"], row["play_number"]), row)
    ordered = [known[key] for key in sorted(known)]
    for before, after in pairwise(ordered):
        if before["lane"] == after["lane"]:
            if before["end_ns"] is None:
                before["end_ns"] = after["start_ns"]
            after["start_ns"] = min(after["start_ns"], before["end_ns"])
    for last, after in pairwise([*ordered, None]):
        if after is None or last["lane"] != after["lane"]:
            last["end_ns"] = None
    schema = pa.schema([plays.schema.field(name) for name in _COLUMNS])
    return pa.Table.from_pylist(ordered, schema)


def lanes_on_record(plays: pa.Table) -> int:
    """Return how many lanes have a play."""
    return len(plays["lane"].unique())


def _keys(table: pa.Table) -> set[tuple[int, int]]:
    return set(zip(table["lane"].to_pylist(), table["play_number"].to_pylist(), strict=True))


def _first_requests(requests: pa.Table) -> Iterator[dict[str, object]]:
    """Yield each play of the responses as a row that starts with its first request."""
    names = ["play_id", "lane", "play_number", "session_id"]
    found = requests.group_by(names).aggregate([("send_ns", "min")])
    for row in found.rename_columns([*names, "start_ns"]).to_pylist():
        yield row | {"end_ns": None}
