"""The records of one point as numpy columns: what every metric is computed from.

Its responses are held whole, one number a column; their token events, hundreds of times as many,
are read again for each fold over them and held a batch at a time. Null is NaN. Stamps are float64
ns since the point's origin, exact for a hundred days.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from agentx_replay.results.schema import REQUESTS
from agentx_replay.results.sums import begins
from agentx_replay.units import NS_PER_S

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Figures of each response, all of shape ``(responses,)``; 0 or NaN where it has too few.

    ``arrival_counts`` arrivals, of which ``crowded_arrivals`` have several events and the fullest
    ``most_events``. ``first_arrival_events``, ``first_arrival_tokens`` and ``first_arrival_bytes``
    are what the first brought, ``last_arrival_events`` and ``fewest_inner_events`` what the last
    did and each in between at least, ``told_tokens`` and ``text_bytes`` what all did (NaN where
    tokens are not told, texts not recorded). ``gap_after_first_ns`` and ``gap_before_last_ns`` are
    the gaps between arrivals at both ends, ``gap_variation`` the coefficient of variation of all
    but the last (a last arrival brings what is left), ``longest_gap`` the longest over the median
    (computed where asked for). ``largest_share`` is what the fullest arrival brought of all tokens,
    as told, else by the length of the texts, else one an event.
    """

    arrival_counts: Counts
    crowded_arrivals: Counts
    most_events: Counts
    first_arrival_events: Counts
    first_arrival_tokens: Floats
    first_arrival_bytes: Floats
    last_arrival_events: Floats
    fewest_inner_events: Floats
    told_tokens: Floats
    text_bytes: Floats
    gap_after_first_ns: Floats
    gap_before_last_ns: Floats
    gap_variation: Floats
    longest_gap: Floats
    largest_share: Floats


def arrivals_of(
    event_counts: Counts,
    at_ns: Floats,
    tokens: Floats,
    text_bytes: Floats,
    wants_longest_gap: NDArray[np.bool_],
) -> Arrivals:
    """Return the arrivals of responses whose events follow one another.

    ``event_counts`` and ``wants_longest_gap`` have shape ``(responses,)``, the others, one entry an
    event, ``(events,)``.
    """
    responses = len(event_counts)
    event_of = np.repeat(np.arange(responses), event_counts)
    first_events = np.flatnonzero(begins(event_of))
    starts = np.flatnonzero(begins(event_of) | begins(at_ns))
    of, at_ns = event_of[starts], at_ns[starts]
    events = np.diff(starts, append=len(event_of))
    counts = np.bincount(of, minlength=responses)
    some, two = counts > 0, counts > 1
    first = np.cumsum(counts) - counts
    last = first + counts - 1

    def at(places: Counts, where: NDArray[np.bool_], values: NDArray[np.float64]) -> Floats:
        found = np.full(responses, np.nan)
        found[where] = values[places[where]]
        return found

    def whole(values: Floats) -> Floats:
        found = np.full(responses, np.nan)
        found[some] = np.add.reduceat(values, first_events) if len(first_events) else []
        return found

    def by_arrival(values: Floats) -> Floats:
        return np.add.reduceat(values, starts) if len(starts) else np.empty(0)

    weights = np.where(np.isnan(tokens), np.where(np.isnan(text_bytes), 1.0, text_bytes), tokens)
    gap_ns = np.diff(at_ns, prepend=0.0)  # of an arrival that is the first, of nothing
    is_later = ~begins(of)
    is_inner = is_later & np.append(~begins(of)[1:], False)
    return Arrivals(
        arrival_counts=counts,
        crowded_arrivals=np.bincount(of[events > 1], minlength=responses),
        most_events=_greatest(events, first, some),
        first_arrival_events=np.nan_to_num(at(first, some, events.astype(float))).astype(np.int64),
        first_arrival_tokens=at(first, some, by_arrival(tokens)),
        first_arrival_bytes=at(first, some, by_arrival(text_bytes)),
        last_arrival_events=at(last, two, events.astype(float)),
        fewest_inner_events=_fewest(of[is_inner], events[is_inner], responses),
        told_tokens=whole(tokens),
        text_bytes=whole(text_bytes),
        gap_after_first_ns=at(first + 1, two, gap_ns),
        gap_before_last_ns=at(last, two, gap_ns),
        gap_variation=_variation(of[is_inner], gap_ns[is_inner] / NS_PER_S, responses),
        longest_gap=_longest(of[is_later], gap_ns[is_later], wants_longest_gap),
        largest_share=_greatest(by_arrival(weights), first, some) / np.maximum(whole(weights), 1.0),
    )


def _greatest(values: NDArray[Any], first: Counts, some: NDArray[np.bool_]) -> NDArray[Any]:
    found = np.zeros(len(first), values.dtype)
    found[some] = np.maximum.reduceat(values, first[some]) if some.any() else []
    return found


def _fewest(of: Counts, events: Counts, responses: int) -> Floats:
    found = np.full(responses, np.nan)
    starts = np.flatnonzero(begins(of))
    if len(starts):
        found[of[starts]] = np.minimum.reduceat(events, starts)
    return found


def _variation(of: Counts, gap_s: Floats, responses: int) -> Floats:
    counts = np.bincount(of, minlength=responses)
    mean = np.bincount(of, gap_s, responses) / np.maximum(counts, 1)
    square = np.bincount(of, (gap_s - mean[of]) ** 2, responses) / np.maximum(counts, 1)
    known = (counts > 1) & (mean > 0)
    found = np.full(responses, np.nan)
    found[known] = np.sqrt(square[known]) / mean[known]
    return found


def _longest(of: Counts, gap_ns: Floats, wanted: NDArray[np.bool_]) -> Floats:
    found = np.full(len(wanted), np.nan)
    kept = wanted[of]
    if not kept.any():
        return found
    order = np.lexsort((gap_ns[kept], of[kept]))
    of, gap_ns = of[kept][order], gap_ns[kept][order]
    starts = np.flatnonzero(begins(of))
    counts = np.diff(starts, append=len(of))
    median = (gap_ns[starts + (counts - 1) // 2] + gap_ns[starts + counts // 2]) / 2
    found[of[starts]] = gap_ns[starts + counts - 1] / median
    return found


Mask = NDArray[np.bool_]

BATCH_EVENTS = 1 << 15
"""Token events in a batch, about: what a fold holds at once, with some ten arrays of its own."""

_NS_PER_US = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Token events of some of a point's responses, each response whole, one after the other.

    ``row`` (which response of the point), ``at_ns``, ``tokens`` (NaN where the server does not
    tell) and ``text_bytes`` (NaN where the length of the text is not on record) have shape
    ``(events,)``.
    """

    row: NDArray[np.int64]
    at_ns: Floats
    tokens: Floats
    text_bytes: Floats

    @property
    def is_first(self) -> Mask:
        return begins(self.row)

    def of(self, mask: Mask) -> "Events":
        """Return the events of the responses in ``mask``, of shape ``(responses,)``."""
        return self.where(mask[self.row])

    def where(self, kept: Mask) -> "Events":
        """Return the events in ``kept``, in order; itself where that is all of them."""
        if kept.all():
            return self
        return Events(self.row[kept], self.at_ns[kept], self.tokens[kept], self.text_bytes[kept])


@dataclass(frozen=True, eq=False)
class TimedTokens(Arrivals):
    """What latencies are made of, each of shape ``(responses,)``, with or without a record."""

    event_counts: NDArray[np.int64]
    send_ns: Floats
    first_token_ns: Floats
    last_token_ns: Floats
    end_ns: Floats
    completion_tokens: Floats
    reasoning_tokens: Floats
    reasoning_pieces: Floats


@dataclass(frozen=True, eq=False)
class Requests:
    """The columns of ``requests.parquet`` that are one value a request, of shape ``(requests,)``.

    ``session`` numbers the recorded sessions in the order in which they appear.
    ``cached_above_prompt`` says where the server reported more cached than prompt tokens: it counts
    something else, so ``cached_tokens`` is NaN there.
    """

    phase: NDArray[np.str_]
    status: NDArray[np.str_]
    error_category: NDArray[np.str_]
    error_text: NDArray[np.object_]
    session: NDArray[np.int64]
    lane: NDArray[np.int64]
    play_number: NDArray[np.int64]
    conversation: NDArray[np.int64]
    turn: NDArray[np.int64]
    replica: NDArray[np.int64]
    recorded_input_tokens: Floats
    planned_prompt_tokens: Floats
    reusable_tokens: Floats
    prompt_tokens: Floats
    cached_tokens: Floats
    completion_tokens: Floats
    reasoning_tokens: Floats
    reasoning_pieces: Floats
    text_pieces: Floats
    intended_start_ns: Floats
    connect_start_ns: Floats
    connected_ns: Floats
    send_ns: Floats
    send_uncertainty_ns: Floats
    first_token_ns: Floats
    first_token_uncertainty_ns: Floats
    last_token_ns: Floats
    last_token_uncertainty_ns: Floats
    end_ns: Floats
    late_events: Floats
    gathered_reads: Floats
    retries: Floats
    cached_above_prompt: Mask

    def __len__(self) -> int:
        return len(self.status)

    def where(self, mask: Mask) -> Self:
        """Return the requests of ``mask``, in order; itself where that is all of them."""
        if mask.all():
            return self
        return type(self)(**{f.name: getattr(self, f.name)[mask] for f in fields(self)})


@dataclass(frozen=True, eq=False)
class Responses(Requests, TimedTokens):
    """Requests and what came. Of its token events a response knows their number,
    ``event_counts``, and what they are as arrivals.
    """


_LISTS = ("arrival_deltas_us", "event_tokens", "event_text_bytes")
EVENT_COLUMNS = ("first_token_ns", *_LISTS)
"""The columns of ``requests.parquet`` that token events are made of."""

_OF_ARRIVALS = tuple(f.name for f in fields(Arrivals))
_TEXTS = ("phase", "status", "error_category")
_SENTENCE = "error_text"
_COUNTS = ("lane", "play_number", "conversation", "turn", "replica")
_NUMBERS = tuple(
    f.name
    for f in fields(Requests)
    if f.name not in {*_TEXTS, *_COUNTS, _SENTENCE, "session", "cached_above_prompt"}
)
REQUEST_COLUMNS: tuple[str, ...] = (*_TEXTS, _SENTENCE, "session_id", *_COUNTS, *_NUMBERS)
COLUMNS: tuple[str, ...] = (*REQUEST_COLUMNS, *_LISTS)
"""The columns of ``requests.parquet`` that are needed; others need not be read."""

Groups = Callable[[tuple[str, ...]], Iterable[pa.Table]]
"""Reads some columns of a point's requests: the same rows each time, in tables of bounded size."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """All responses of a point, and where its token events are read from."""

    responses: Responses
    groups: Groups

    def events(self) -> Iterator[Events]:
        """Read the token events of all responses, in order, in batches.

        A batch has ``BATCH_EVENTS`` events, and those by which its last response goes beyond.
        """
        row = 0
        for table in self.groups(EVENT_COLUMNS):
            counts = self.responses.event_counts[row : row + len(table)]
            for start, stop in _spans(counts):
                yield _events(table.slice(start, stop - start), row + start)
            row += len(table)


def records_of(groups: Groups) -> Records:
    return Records(Responses(**_together(groups(COLUMNS), _columns)), groups)


def requests_of(tables: Iterable[pa.Table]) -> Requests:
    """Return the rows, without token events, of tables with ``REQUEST_COLUMNS``."""
    return Requests(**_together(tables, _scalars))


def _together(
    tables: Iterable[pa.Table],
    columns_of: Callable[[pa.Table, dict[str, int]], dict[str, NDArray[Any]]],
) -> dict[str, NDArray[Any]]:
    """Return the columns of all tables; without rows where the directory has no file."""
    sessions: dict[str, int] = {}
    parts = [columns_of(table, sessions) for table in tables]
    parts = parts or [columns_of(REQUESTS.schema().empty_table(), sessions)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _scalars(table: pa.Table, sessions: dict[str, int]) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {name: _texts(table[name]) for name in _TEXTS}
    columns |= {name: _floats(table[name]) for name in _NUMBERS}
    columns |= {name: np.nan_to_num(_floats(table[name])).astype(np.int64) for name in _COUNTS}
    columns["session"] = _codes(table["session_id"], sessions)
    columns[_SENTENCE] = _texts(table[_SENTENCE], np.object_)  # long, and few have one
    above = columns["cached_tokens"] > columns["prompt_tokens"]
    columns["cached_tokens"] = np.where(above, np.nan, columns["cached_tokens"])
    return columns | {"cached_above_prompt": above}


def _columns(table: pa.Table, sessions: dict[str, int]) -> dict[str, NDArray[Any]]:
    columns, counts = _scalars(table, sessions), _event_counts(table)
    return (
        columns
        | {"event_counts": counts}
        | _arrivals(table, counts, columns["reasoning_tokens"] > 0)
    )


def _arrivals(
    table: pa.Table, event_counts: NDArray[np.int64], reasons: Mask
) -> dict[str, NDArray[Any]]:
    parts = []
    for start, stop in _spans(event_counts) or [(0, 0)]:
        events = _events(table.slice(start, stop - start), 0)
        parts.append(
            arrivals_of(
                event_counts[start:stop],
                events.at_ns,
                events.tokens,
                events.text_bytes,
                reasons[start:stop],
            )
        )
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in _OF_ARRIVALS}


def _texts(column: pa.ChunkedArray, kind: type[np.generic] = np.str_) -> NDArray[Any]:
    """Return texts of which there are few different ones, "" for null."""
    coded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    different = np.array(coded.dictionary.to_pylist(), kind)
    texts: NDArray[Any] = different[coded.indices.to_numpy()]
    return texts


def _codes(column: pa.ChunkedArray, numbers: dict[str, int]) -> NDArray[np.int64]:
    """Return the number of each text, new ones counted on in ``numbers``."""
    coded = column.combine_chunks().dictionary_encode()
    codes = [numbers.setdefault(text, len(numbers)) for text in coded.dictionary.to_pylist()]
    found: NDArray[np.int64] = np.array(codes, np.int64)[coded.indices.to_numpy()]
    return found


def _floats(column: pa.ChunkedArray) -> Floats:
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _event_counts(table: pa.Table) -> NDArray[np.int64]:
    came = pc.is_valid(table["first_token_ns"]).to_numpy()
    return np.where(came, _lengths(table["arrival_deltas_us"]) + 1, 0)


def _lengths(column: pa.ChunkedArray) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return lengths.astype(np.int64)


def _spans(counts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut responses with so many events into spans of about ``BATCH_EVENTS``: first row, end."""
    batch = (np.cumsum(counts) - counts) // BATCH_EVENTS
    starts: list[int] = np.flatnonzero(begins(batch)).tolist()
    return list(pairwise([*starts, len(counts)]))


def _events(table: pa.Table, first_row: int) -> Events:
    """Return the events of a table with ``EVENT_COLUMNS``, whose rows count from ``first_row``."""
    counts = _event_counts(table)
    has_events = counts > 0
    row = np.repeat(np.arange(first_row, first_row + len(counts)), counts)
    first_at = (np.cumsum(counts) - counts)[has_events]
    later = np.ones(len(row), bool)
    later[first_at] = False
    at_ns = np.zeros(len(row))
    at_ns[later] = pc.list_flatten(table["arrival_deltas_us"]).to_numpy() * _NS_PER_US
    np.cumsum(at_ns, out=at_ns)
    first_token_ns = _floats(table["first_token_ns"])[has_events]
    at_ns += np.repeat(first_token_ns - at_ns[first_at], counts[has_events])
    of_events = (_of_events(table[name], counts) for name in ("event_tokens", "event_text_bytes"))
    return Events(row, at_ns, *of_events)


def _of_events(column: pa.ChunkedArray, event_counts: NDArray[np.int64]) -> Floats:
    """Return the elements of lists, NaN for each event of a response that has none."""
    told = np.repeat(_lengths(column) > 0, event_counts)
    values = np.full(len(told), np.nan)
    values[told] = pc.list_flatten(column).to_numpy()
    return values


MEASURED_STATUSES = ("ok", "length_mismatch")
"""How a response ends that is in the metrics: a length mismatch is counted, and measured."""


@dataclass(frozen=True, slots=True)
class Window:
    """[``open_ns``, ``close_ns``) since the point's origin; ``nominal_s`` is what the scenario
    asked for, and longer where the window was closed early.
    """

    open_ns: int
    close_ns: int
    nominal_s: float

    @property
    def length_s(self) -> float:
        return (self.close_ns - self.open_ns) / NS_PER_S


def in_window_set(responses: Requests, window: Window) -> Mask:
    in_set: Mask = happened_in(responses.send_ns, window) & (responses.phase == "window")
    return in_set


def sent_in(responses: Responses, window: Window) -> Responses:
    return responses.where(in_window_set(responses, window))


def happened_in(at_ns: Floats | NDArray[np.int64], window: Window) -> Mask:
    inside: Mask = (at_ns >= window.open_ns) & (at_ns < window.close_ns)
    return inside


def came_ns(requests: Requests) -> Floats:
    """Return when the first token of each came; where none did, when the request ended."""
    first_ns = requests.first_token_ns
    return np.where(np.isnan(first_ns), requests.end_ns, first_ns)


def measured(responses: Requests) -> Mask:
    return np.isin(responses.status, MEASURED_STATUSES)


def observed_window(responses: Responses, nominal_s: float) -> Window | None:
    """Return the window of a run that was killed, as its records show it; None before it opened.

    It opens with the first request of the window's phase and closes after ``nominal_s`` or with
    the last stamp on record.
    """
    in_phase = responses.phase == "window"
    if not in_phase.any():
        return None
    open_ns = int(responses.intended_start_ns[in_phase].min())
    last_ns = int(responses.end_ns[in_phase].max())
    if last_ns <= open_ns:
        return None
    return Window(open_ns, min(open_ns + round(nominal_s * NS_PER_S), last_ns), nominal_s)
