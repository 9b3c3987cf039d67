"""Rows that bring block ids of their own: Mooncake's and Bailian's public traces.

A row is one request with the ids of its prompt's blocks and no text. Mooncake's rows are in no
session (they are put into one by prefix), Bailian's know the chat they answer. Only whole blocks
are kept: the id of a partial last block never recurs when a prompt grows.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentx_replay.traces.importing.lines import Place, bad_field, rows, span_ms, tokens
from agentx_replay.traces.importing.record import (
    ImportedSession,
    Ledger,
    Notes,
    Request,
    grouped,
    root_of,
)

MOONCAKE_BLOCK_TOKENS = 512
BAILIAN_BLOCK_TOKENS = 16
_MOST_ID = 2**64 - 1
_MOST_DIFFERENCE = 0.01
"""Reuse across sessions may exceed that within them by one point before it is remarked on."""

_LEAST_DURATION_MS = 1_000
"""Before the first token, where a duration is assumed."""

ASSUMED_DURATION = "request without a duration: 1 s and its output at --assume-speed"
NO_DURATION = "request without a duration: gaps count from start to start (see --assume-speed)"


@dataclass(frozen=True, slots=True)
class _Row:
    """One request. ``start_ms`` is None where only a pause after the one before is known."""

    start_ms: int | None
    pause_ms: int
    input_tokens: int
    output_tokens: int
    blocks: Sequence[int]
    session: str
    parent: str


def read_mooncake(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield sessions by ``session_id`` where rows have one, else by prefix."""
    found = list(rows(files, ledger, _mooncake_row))
    if any(row.session for row in found):
        groups = list(grouped((row.session, row) for row in found).values())
    else:
        groups = _by_prefix(sorted(found, key=lambda row: row.start_ms or 0))
    yield from _sessions(groups, MOONCAKE_BLOCK_TOKENS, ledger)


def read_bailian(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield sessions by the chat that each chain of answers began with."""
    found = list(rows(files, ledger, _bailian_row))
    parents = {row.session: row.parent for row in found}
    groups = grouped((root_of(row.session, parents), row) for row in found).values()
    yield from _sessions(groups, BAILIAN_BLOCK_TOKENS, ledger)


def _mooncake_row(place: Place, row: dict[str, Any]) -> _Row | None:
    start_ms = None if row.get("timestamp") is None else tokens(row, "timestamp", place)
    name = row.get("session_id")
    return _block_row(
        place, row, start_ms, MOONCAKE_BLOCK_TOKENS, "" if name is None else str(name)
    )


def _bailian_row(place: Place, row: dict[str, Any]) -> _Row | None:
    start_ms = span_ms(place, "timestamp", row.get("timestamp"), 1000)
    chat, parent = str(row.get("chat_id")), str(row.get("parent_chat_id"))
    return _block_row(place, row, start_ms, BAILIAN_BLOCK_TOKENS, chat, parent)


def _block_row(
    place: Place, row: dict[str, Any], start_ms: int | None, block_tokens: int,
    session: str, parent: str = "",
) -> _Row | None:  # fmt: skip
    input_tokens = tokens(row, "input_length", place)
    ids = row.get("hash_ids")
    if not isinstance(ids, list) or set(map(type, ids)) - {int}:
        raise bad_field(place, "hash_ids", ids, "a list of whole numbers")
    if ids and not 0 <= min(ids) <= max(ids) <= _MOST_ID:
        raise bad_field(place, "hash_ids", ids, "a list of numbers of 64 bits")
    if not input_tokens:
        return None
    whole = array("Q", ids[: input_tokens // block_tokens])
    output_tokens = tokens(row, "output_length", place)
    pause_ms = tokens(row, "delay", place) + tokens(row, "tool_wait_ms", place)
    return _Row(start_ms, pause_ms, input_tokens, output_tokens, whole, session, parent)


def _by_prefix(ordered: Iterable[_Row]) -> list[list[_Row]]:
    """Put each row into the session whose last prompt it begins with, the longest one first.

    A prompt without a whole block begins with everything, so nothing goes on from it.
    """
    groups: list[list[_Row]] = []
    ends: dict[int, list[int]] = defaultdict(list)
    for row in ordered:
        prefixes = list(_prefixes(row.blocks))
        depth = next((each for each in reversed(prefixes) if ends.get(each)), None)
        if depth is None:
            at = len(groups)
            groups.append([])
        else:
            at = ends[depth].pop()
        groups[at].append(row)
        if prefixes:
            ends[prefixes[-1]].append(at)
    return groups


def _prefixes(blocks: Iterable[int]) -> Iterator[int]:
    """Yield a number for each prefix of a prompt, the same for the same ids."""
    so_far = 0
    for identity in blocks:
        so_far = hash((so_far, identity))
        yield so_far


def _sessions(
    groups: Iterable[Sequence[_Row]], block_tokens: int, ledger: Ledger
) -> Iterator[ImportedSession]:
    timed = sorted((_timed(rows_of) for rows_of in groups), key=lambda of: of[0].start_ms)
    if not timed:
        return
    _remark_on_sharing(timed, ledger)
    common = _common_blocks([requests[0].block_ids or () for requests in timed])
    for number, requests in enumerate(timed):
        yield ImportedSession(
            name=f"{number}",
            requests=tuple(requests),
            block_tokens=block_tokens,
            system_tokens=common * block_tokens,
            notes=Notes(Counter({NO_DURATION: len(requests)})),
        )


def _timed(rows_of_session: Sequence[_Row]) -> list[Request]:
    """Return one session's requests in order of time, those with a pause after the one before."""
    if all(row.start_ms is not None for row in rows_of_session):
        rows_of_session = sorted(rows_of_session, key=lambda row: row.start_ms or 0)
    requests: list[Request] = []
    for row in rows_of_session:
        before_ms = requests[-1].start_ms if requests else 0
        start_ms = before_ms + row.pause_ms if row.start_ms is None else row.start_ms
        requests.append(
            Request(
                max(start_ms, before_ms), None, row.input_tokens, row.output_tokens, "",
                block_ids=row.blocks,
            )
        )  # fmt: skip
    return requests


def _remark_on_sharing(timed: Sequence[Sequence[Request]], ledger: Ledger) -> None:
    """Say what sharing across sessions is lost where each session is replayed on its own."""
    everywhere: set[int] = set()
    blocks = known = known_within = 0
    for requests in timed:
        within: set[int] = set()
        for request in requests:
            prefixes = list(_prefixes(request.block_ids or ()))
            blocks += len(prefixes)
            known_within += sum(each in within for each in prefixes)
            known += sum(each in everywhere for each in prefixes)
            within.update(prefixes)
            everywhere.update(prefixes)
    if known - known_within > _MOST_DIFFERENCE * blocks:
        ledger.remarks.append(
            f"reuse of whole blocks is {known / blocks:.2%} across sessions and"
            f" {known_within / blocks:.2%} within them: a replay shares nothing across sessions"
        )


def _common_blocks(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many blocks all prompts begin with: those first and last in order do."""
    first, last = min(prompts, key=list), max(prompts, key=list)
    pairs = zip(first, last, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def with_durations(session: ImportedSession, tokens_per_s: float | None) -> ImportedSession:
    """Return a session of rows with durations of 1 s and the output at a speed; None has none."""
    if tokens_per_s is None or not session.notes.assumed[NO_DURATION]:
        return session
    requests = tuple(
        replace(
            each,
            end_ms=each.start_ms
            + _LEAST_DURATION_MS
            + round(1000 * each.output_tokens / tokens_per_s),
        )
        for each in session.requests
    )
    assumed = Notes(Counter({ASSUMED_DURATION: len(requests)}))
    return replace(session, requests=requests, notes=assumed)
