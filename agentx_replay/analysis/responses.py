"""The responses of one point as numpy columns: what every metric is computed from.

Null is NaN. Stamps are float64 ns since the point's origin, exact for a hundred days.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_NS_PER_US = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Token events of all responses, one response after the other.

    ``counts`` has shape ``(responses,)``; ``row`` (which response), ``at_ns`` and ``tokens``
    (NaN where the server does not tell) have shape ``(events,)``.
    """

    counts: NDArray[np.int64]
    row: NDArray[np.int64]
    at_ns: Floats
    tokens: Floats

    @property
    def is_first(self) -> Mask:
        """Which events are the first of their response."""
        first = np.zeros(len(self.row), bool)
        first[(np.cumsum(self.counts) - self.counts)[self.counts > 0]] = True
        return first


@dataclass(frozen=True, slots=True, eq=False)
class Responses:
    """Columns of ``requests.parquet``, each of shape ``(responses,)``, and the token events."""

    phase: NDArray[np.str_]
    status: NDArray[np.str_]
    error_category: NDArray[np.str_]
    lane: NDArray[np.int64]
    recorded_input_tokens: Floats
    planned_prompt_tokens: Floats
    reusable_tokens: Floats
    prompt_tokens: Floats
    cached_tokens: Floats
    completion_tokens: Floats
    intended_start_ns: Floats
    connect_start_ns: Floats
    connected_ns: Floats
    send_ns: Floats
    first_token_ns: Floats
    last_token_ns: Floats
    end_ns: Floats
    retries: Floats
    events: Events

    def __len__(self) -> int:
        return len(self.status)

    def where(self, mask: Mask) -> "Responses":
        """Return the responses of ``mask``, in order; itself where that is all of them."""
        if mask.all():
            return self
        columns = {f.name: getattr(self, f.name)[mask] for f in fields(self) if f.name != "events"}
        return Responses(**columns, events=_events_where(self.events, mask))


COLUMNS: tuple[str, ...] = (
    *(f.name for f in fields(Responses) if f.name != "events"),
    "arrival_deltas_us",
    "event_tokens",
)
"""The columns of ``requests.parquet`` that are needed; others need not be read."""

_TEXTS = {"phase", "status", "error_category"}


def responses_of(table: pa.Table) -> Responses:
    """Return the rows of ``requests.parquet`` (at least ``COLUMNS``) as arrays."""
    columns: dict[str, Any] = {}
    for name in COLUMNS[:-2]:
        if name in _TEXTS:
            columns[name] = np.array(pc.fill_null(table[name], "").to_pylist(), np.str_)
        else:
            columns[name] = _floats(table[name])
    columns["lane"] = columns["lane"].astype(np.int64)
    events = _events(
        columns["first_token_ns"], _flat(table["arrival_deltas_us"]), _flat(table["event_tokens"])
    )
    return Responses(**columns, events=events)


def _floats(column: pa.ChunkedArray) -> Floats:
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _flat(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of each list (0 for null) and all values in a row."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return lengths, pc.list_flatten(column).to_numpy()


def _events(
    first_token_ns: Floats,
    deltas: tuple[NDArray[np.int64], NDArray[np.int64]],
    tokens: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Events:
    delta_counts, deltas_us = deltas
    token_counts, token_values = tokens
    has_events = ~np.isnan(first_token_ns)
    counts = np.where(has_events, delta_counts + 1, 0)
    row = np.repeat(np.arange(len(counts)), counts)
    first_at = (np.cumsum(counts) - counts)[has_events]
    at_ns = np.zeros(len(row))
    later = np.ones(len(row), bool)
    later[first_at] = False
    at_ns[later] = deltas_us * _NS_PER_US
    at_ns[first_at] = 0
    np.cumsum(at_ns, out=at_ns)
    at_ns += np.repeat(first_token_ns[has_events] - at_ns[first_at], counts[has_events])
    known = np.repeat(token_counts > 0, counts)
    event_tokens = np.full(len(row), np.nan)
    event_tokens[known] = token_values
    return Events(counts, row, at_ns, event_tokens)


def _events_where(events: Events, mask: Mask) -> Events:
    kept = mask[events.row]
    counts = events.counts[mask]
    return Events(
        counts,
        np.repeat(np.arange(len(counts)), counts),
        events.at_ns[kept],
        events.tokens[kept],
    )
