"""From what crosses the recorder port to rows of the record files.

``request_row`` and ``play_row`` are what the closed loop pays for a record; the rest runs beside
it, in slices small enough to leave the interpreter to the loop. Columns that say of which level
and start a row is, and origins of timestamps, come in there.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from agentx_replay.replay.ports import Dispatch, PlayRecord, Response, recorded_status
from agentx_replay.results.layout import Measurement
from agentx_replay.results.records import Table
from agentx_replay.results.schema import PLAYS, REQUESTS

_NS_PER_US = 1000
_LISTS = ("arrival_deltas_us", "event_tokens", "event_text_bytes")
_OF_PROMPT = {
    "planned_prompt_tokens": "prompt.tokens",
    "reusable_tokens": "prompt.reusable_tokens",
    "declared_blocks": "prompt.declared_blocks",
    "declared_tokens": "prompt.declared_tokens",
    "says_answer": "prompt.says_answer",
}
_DERIVED = ("own_block", "declared_prefix", "prompt_length_error", "status")
_OWN = [c.name for c in REQUESTS.columns[2:] if c.name not in (*_LISTS, *_DERIVED)]
_SENT = [name for name in _OWN if hasattr(Dispatch, name) or name in _OF_PROMPT]
_CAME = [name for name in _OWN if name not in _SENT]
_SCALARS = (*_SENT, *_CAME, *_DERIVED)
_sent = attrgetter(*(_OF_PROMPT.get(name, name) for name in _SENT))
_came = attrgetter(*_CAME)
_played = attrgetter(*(c.name for c in PLAYS.columns[2:]))


class RequestRow(NamedTuple):
    """One response: the columns ``_SCALARS``, and its token events."""

    scalars: tuple[Any, ...]
    arrival_ns: NDArray[np.int64]
    arrival_tokens: NDArray[np.int32] | None = None
    event_text_bytes: NDArray[np.int32] | None = None


def request_row(dispatch: Dispatch, response: Response) -> RequestRow:
    """Return the row of one response. The arrivals are copied, so that a row holds on to no buffer
    of the wire.
    """
    prompt, counted = dispatch.prompt, response.prompt_tokens
    own = prompt.block_ids[prompt.declared_blocks :]
    derived = (
        int(own[0]) if len(own) else None,
        int(prompt.block_ids[0]) if prompt.declared_blocks else None,
        None if counted is None else counted - dispatch.recorded_input_tokens,
        recorded_status(dispatch, response),
    )
    tokens = response.arrival_tokens
    return RequestRow(
        _sent(dispatch) + _came(response) + derived,
        response.arrival_ns.copy(),
        None if tokens is None else tokens.copy(),
        response.event_text_bytes,
    )


def blank_row() -> RequestRow:
    """Return a row that says nothing, of the right types."""
    blank = {pa.string(): "", pa.bool_(): False}
    return RequestRow(
        tuple(blank.get(REQUESTS.by_name[name].type, 0) for name in _SCALARS), np.empty(0, np.int64)
    )


def play_row(play: PlayRecord) -> tuple[Any, ...]:
    """Return the row of one play, in the order of ``PLAYS``."""
    row: tuple[Any, ...] = _played(play)
    return row


def event_count(row: tuple[Any, ...]) -> int:
    """Return the number of token events in a row of any table."""
    return len(row.arrival_ns) if isinstance(row, RequestRow) else 0


def batch_of(
    table: Table, rows: Sequence[Any], measurement: Measurement, origin_ns: int = 0
) -> pa.RecordBatch:
    """Return rows of a level's start as an Arrow batch; timestamps count from ``origin_ns``.

    Rows of another table than ``REQUESTS`` have its columns after level and start.
    """
    if table is REQUESTS:
        columns = _arrays(table, _SCALARS, [row.scalars for row in rows], measurement, origin_ns)
        columns["arrival_deltas_us"] = _delta_lists([row.arrival_ns for row in rows])
        columns["event_tokens"] = _count_lists([row.arrival_tokens for row in rows])
        columns["event_text_bytes"] = _count_lists([row.event_text_bytes for row in rows])
    else:
        columns = _arrays(table, [c.name for c in table.columns[2:]], rows, measurement, origin_ns)
    return pa.RecordBatch.from_arrays(
        [columns[c.name] for c in table.columns], schema=table.schema()
    )


def _arrays(
    table: Table,
    names: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    measurement: Measurement,
    origin_ns: int,
) -> dict[str, pa.Array]:
    arrays = {
        name: pa.repeat(pa.scalar(n, pa.int32()), len(rows))
        for name, n in measurement._asdict().items()
    }
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        array = pa.array(values, table.by_name[name].type)
        arrays[name] = pc.subtract(array, origin_ns) if table.by_name[name].since_origin else array
    return arrays


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _delta_lists(arrivals: list[NDArray[np.int64]]) -> pa.ListArray:
    """Return each row's gaps in µs. Stamps are rounded before they are subtracted, so that
    rounding never adds up along a response.
    """
    counts = np.array([len(a) for a in arrivals], np.int64)
    stamps_ns = np.concatenate(arrivals)
    first_at = (np.cumsum(counts) - counts)[counts > 0]
    since_first_ns = stamps_ns - np.repeat(stamps_ns[first_at], counts[counts > 0])
    since_first_us = (since_first_ns + _NS_PER_US // 2) // _NS_PER_US
    deltas_us = np.delete(np.diff(since_first_us, prepend=0), first_at)
    return pa.ListArray.from_arrays(_offsets(np.maximum(counts - 1, 0)), pa.array(deltas_us))


def _count_lists(counts: list[NDArray[np.int32] | None]) -> pa.ListArray:
    known = [row for row in counts if row is not None]
    lengths = np.array([0 if row is None else len(row) for row in counts], np.int64)
    values = np.concatenate(known).astype(np.int32) if known else np.empty(0, np.int32)
    unknown = pa.array([row is None for row in counts])
    return pa.ListArray.from_arrays(_offsets(lengths), pa.array(values), mask=unknown)
