"""From what crosses the recorder port to rows of the record files.

``request_row`` and ``play_row`` are what the closed loop pays for a record; the rest runs beside
it, in slices small enough to leave the interpreter to the loop.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.replay.ports import Dispatch, PlayRecord, Response, recorded_status
from agentx_replay.results.schema import REQUESTS, arrow_schema

_LISTS = ("arrival_deltas_us", "event_tokens", "event_text_bytes")
_REQUEST_SCHEMA = arrow_schema(REQUESTS)
_SCALAR_FIELDS = [field for field in _REQUEST_SCHEMA if field.name not in _LISTS]
_NS_PER_US = 1000


class RequestRow(NamedTuple):
    """One response: the scalar columns of ``REQUESTS`` in order, and its token events."""

    scalars: tuple[Any, ...]
    arrival_ns: NDArray[np.int64]
    arrival_tokens: NDArray[np.int32] | None
    event_text_bytes: NDArray[np.int32] | None = None


def request_row(
    dispatch: Dispatch, response: Response, origin_ns: int, start: int = 1
) -> RequestRow:
    """Return the row of one response of a level's ``start``; stamps count from ``origin_ns``.

    The arrivals are copied, so that a row holds on to no buffer of the wire.
    """

    def since(stamp_ns: int | None) -> int | None:
        return None if stamp_ns is None else stamp_ns - origin_ns

    prompt_tokens = response.prompt_tokens
    scalars = (
        dispatch.concurrency,
        start,
        dispatch.phase.value,
        dispatch.request_id,
        dispatch.play_id,
        dispatch.stream_id,
        dispatch.session_id,
        dispatch.lane,
        dispatch.ordinal,
        dispatch.stream,
        dispatch.turn,
        dispatch.request_index,
        dispatch.gap_s,
        dispatch.recorded_input_tokens,
        dispatch.recorded_output_tokens,
        dispatch.max_tokens,
        dispatch.prompt.tokens,
        dispatch.prompt.reusable_tokens,
        dispatch.shared_blocks,
        dispatch.play_request,
        dispatch.kept_blocks,
        dispatch.stream_kept_blocks,
        dispatch.prompt.declared_blocks,
        _own_block(dispatch),
        int(dispatch.prompt.block_ids[0]) if dispatch.prompt.declared_blocks else None,
        dispatch.prompt.declared_tokens,
        dispatch.prompt.says_answer,
        dispatch.skipped_ns,
        dispatch.intended_start_ns - origin_ns,
        since(response.connect_start_ns),
        since(response.connected_ns),
        response.send_ns - origin_ns,
        since(response.sent_ns),
        since(response.first_byte_ns),
        since(response.first_token_ns),
        since(response.last_token_ns),
        response.end_ns - origin_ns,
        prompt_tokens,
        response.cached_tokens,
        response.completion_tokens,
        None if prompt_tokens is None else prompt_tokens - dispatch.recorded_input_tokens,
        recorded_status(dispatch, response).value,
        response.finish_reason,
        response.http_status,
        None if response.error_category is None else response.error_category.value,
        response.error_text,
        response.retries,
        response.replica,
        response.first_token_uncertainty_ns,
        response.last_token_uncertainty_ns,
        response.send_uncertainty_ns,
        response.late_events,
        response.gathered_reads,
        response.text_pieces,
        response.reasoning_tokens,
        response.reasoning_pieces,
    )
    tokens = response.arrival_tokens
    return RequestRow(
        scalars,
        response.arrival_ns.copy(),
        None if tokens is None else tokens.copy(),
        response.event_text_bytes,
    )


def _own_block(dispatch: Dispatch) -> int | None:
    prompt = dispatch.prompt
    own = prompt.block_ids[prompt.declared_blocks :]
    return int(own[0]) if len(own) else None


def blank_row() -> RequestRow:
    """Return a row that says nothing, of the right types."""
    blank = {pa.string(): "", pa.bool_(): False}
    scalars = tuple(blank.get(field.type, 0) for field in _SCALAR_FIELDS)
    return RequestRow(scalars, np.empty(0, np.int64), None)


def play_row(play: PlayRecord, origin_ns: int, start: int = 1) -> tuple[Any, ...]:
    """Return the row of one play of a level's ``start``, in the order of ``PLAYS``; stamps count
    from ``origin_ns``.
    """
    return (
        play.concurrency,
        start,
        play.play_id,
        play.session_id,
        play.lane,
        play.ordinal,
        play.t_star_s,
        play.start_ns - origin_ns,
        None if play.end_ns is None else play.end_ns - origin_ns,
        play.requests_sent,
        play.requests_skipped,
        play.system_skipped_s,
        play.tree_skipped_s,
    )


def request_batch(rows: Sequence[RequestRow]) -> pa.RecordBatch:
    """Return rows as one Arrow batch of the schema of ``REQUESTS``."""
    scalars = zip(*(row.scalars for row in rows), strict=True)
    columns = {
        field.name: pa.array(values, field.type)
        for field, values in zip(_SCALAR_FIELDS, scalars, strict=True)
    }
    columns["arrival_deltas_us"] = _delta_lists([row.arrival_ns for row in rows])
    columns["event_tokens"] = _count_lists([row.arrival_tokens for row in rows])
    columns["event_text_bytes"] = _count_lists([row.event_text_bytes for row in rows])
    return pa.RecordBatch.from_arrays(
        [columns[field.name] for field in _REQUEST_SCHEMA], schema=_REQUEST_SCHEMA
    )


def table_of(columns_schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return plain rows as an Arrow table of the given schema."""
    by_column = zip(*rows, strict=True) if rows else ([] for _ in columns_schema)
    arrays = [pa.array(v, f.type) for f, v in zip(columns_schema, by_column, strict=True)]
    return pa.Table.from_arrays(arrays, schema=columns_schema)


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
