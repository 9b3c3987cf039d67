"""What was sent, held against the recorded graph: order, joins, spawns, gaps, prefixes, resets.

Everything is worked out again from the stamps and block counts on record and from the plan; the
closed loop's own state has no part in it. Numbers over the whole point are in
``analysis/fidelity.py``.

A run that was killed leaves, of each worker, the responses that had ended up to some moment, in the
order they ended. What a request waited for is then on record if the request is. What was still in
flight is not, so nothing is held against a play that rests on a request in flight.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from agentx_replay.analysis.fidelity import (
    COLUMNS,
    Conformity,
    Fidelity,
    excess,
    fidelity,
    without_prefixes,
)
from agentx_replay.analysis.responses import Window
from agentx_replay.plan.graph import Conversation, Turn, TurnId
from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.replay.ports import Phase, Status
from agentx_replay.replay.sent_blocks import common_blocks
from agentx_replay.results.schema import PLAYS, REQUESTS
from agentx_replay.traces.model import RecordedRequest, Session, Subagent
from agentx_replay.units import NS_PER_S

_PLAY_COLUMNS = ("play_id", "lane", "play_number", "session_id", "start_ns", "end_ns")


class SentRequest(NamedTuple):
    """One row of ``requests.parquet``, as far as it says how a request was sent."""

    phase: str
    status: str
    lane: int
    play_number: int
    conversation: int
    turn: int
    play_request: int
    kept_blocks: int
    conversation_kept_blocks: int
    declared_blocks: int
    skipped_ns: int
    send_ns: int
    end_ns: int


def level_fidelity(
    plan: Plan,
    directory: Path,
    window: Window | None,
    *,
    killed: bool = False,
    live_history: bool = False,
) -> Fidelity | None:
    """Return the fidelity report of the point in ``directory``; None where no window opened.

    Of a point that was ``killed``, live trees are counted on the lanes and up to the moment that
    the records tell of; of one with ``live_history`` nothing is said of prefixes.
    """
    if window is None:
        return None
    requests = REQUESTS.read(directory, COLUMNS)
    plays = PLAYS.read(directory)
    cut_off = cut_off_plays(requests, plays)
    found = conformity(plan, requests, cut_off)
    trees = plan.concurrency
    if killed or cut_off:
        plays = with_live_plays(requests, plays)
        trees = lanes_on_record(plays)
    block_tokens = {each.id: each.block_size for each in plan.library.selection.sessions}
    report = fidelity(requests, plays, window, trees, found, block_tokens)
    return without_prefixes(report) if live_history else report


def conformity(
    plan: Plan, requests: pa.Table, cut_off: Collection[tuple[int, int]] = ()
) -> Conformity:
    """Check every request of a point against the plan, warm-up included.

    Gaps are those of the window: from a response that ended in it to the conversation's next
    request. Plays ``cut_off``, as (lane, play number), lack requests that a kill found in flight.
    """
    counts: Counter[str] = Counter()
    late_ns: list[int] = []
    played: dict[int, PlannedPlay] = {}
    for (lane, play_number), rows in _by_play(requests).items():
        planned = plan.play(lane, play_number)
        played[planned.session_index] = planned
        whole = (lane, play_number) not in cut_off
        live = _LivePlay.of(planned, rows, whole=whole)
        for row in rows:
            if row.phase != Phase.PRIMER:
                turn = planned.graph.conversations[row.conversation].turns[row.turn]
                counts.update(live.departures(row, turn))
                late_ns += live.late_ns(row, turn)
        counts["abandoned_requests"] += live.abandoned()
        counts.update(_prefix_counts(planned, rows if whole else _unbroken(rows)))
    for each in played.values():
        counts.update(_recording_counts(each))
    found = {f.name: counts[f.name] for f in fields(Conformity) if f.name != "gaps"}
    return Conformity(gaps=excess(np.array(late_ns, np.int64)), **found)


def _recording_counts(planned: PlannedPlay) -> dict[str, int]:
    """Return what a session's recording and its reading leave out or add."""
    notes = planned.session.notes
    return {
        "dropped_requests": planned.graph.dropped_requests,
        "negative_gaps": notes.negative_gaps,
        "missing_durations": notes.missing_durations,
        "short_block_lists": notes.short_block_lists,
        "empty_subagents": sum(
            isinstance(entry, Subagent) and not entry.requests for entry in planned.session.entries
        ),
        "unawaited_conversations": sum(each.background for each in planned.graph.conversations),
    }


def _by_play(requests: pa.Table) -> dict[tuple[int, int], list[SentRequest]]:
    """Return the requests of each play, by (lane, play number), in the order they were composed."""
    plays: dict[tuple[int, int], list[SentRequest]] = defaultdict(list)
    columns = (requests[name].to_pylist() for name in SentRequest._fields)
    for row in map(SentRequest._make, zip(*columns, strict=True)):
        plays[row.lane, row.play_number].append(row)
    for rows in plays.values():
        rows.sort(key=lambda row: row.play_request)
    return plays


def _unbroken(rows: Sequence[SentRequest]) -> list[SentRequest]:
    """Return the requests up to the first that is missing: what later ones kept may be its."""
    return [row for place, row in enumerate(rows) if row.play_request == place]


# -- when ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LivePlay:
    """A play as it was sent: its requests by turn, and the last turn of each conversation given up.

    ``whole`` says that every request sent is on record.
    """

    planned: PlannedPlay
    sent: dict[TurnId, SentRequest]
    given_up: dict[int, int]
    whole: bool

    @classmethod
    def of(cls, planned: PlannedPlay, rows: Iterable[SentRequest], *, whole: bool) -> "_LivePlay":
        sent = {TurnId(row.conversation, row.turn): row for row in rows}
        given_up = {
            row.conversation: row.turn
            for row in sent.values()
            if row.status == Status.OVERFLOW and row.phase != Phase.PRIMER
        }
        begun = {row.conversation for row in sent.values()}
        for conversation in planned.graph.conversations:
            if conversation.index not in begun and _never_spawned(conversation, given_up):
                given_up[conversation.index] = -1
        return cls(planned, sent, given_up, whole)

    def departures(self, row: SentRequest, turn: Turn) -> dict[str, int]:
        """Return a request's departures from the graph, by the name of their count."""
        return {
            "requests": 1,
            "order": self.breaks_order(row, turn),
            "joins": self.breaks_joins(row, turn),
            "spawns": self.breaks_spawn(row),
        }

    def breaks_order(self, row: SentRequest, turn: Turn) -> bool:
        before = (TurnId(row.conversation, row.turn - 1),) if row.turn else ()
        return not all(self._over_by(each, row.send_ns) for each in (*before, *turn.after))

    def breaks_joins(self, row: SentRequest, turn: Turn) -> bool:
        return not all(
            self._over_by(TurnId(join.conversation, turn), row.send_ns)
            for join in turn.joins
            for turn in range(len(self.planned.graph.conversations[join.conversation].turns))
        )

    def _over_by(self, turn: TurnId, at_ns: int) -> bool:
        """Whether a turn had ended, was given up, or lies before the play's start."""
        row = self.sent.get(turn)
        if row is not None and row.phase != Phase.PRIMER:
            return row.end_ns <= at_ns
        if turn.number < self.planned.start.turns[turn.conversation]:
            return True
        return turn.number > self.given_up.get(turn.conversation, turn.number)

    def breaks_spawn(self, row: SentRequest) -> bool:
        spawn = self.planned.graph.conversations[row.conversation].spawn
        start = self.planned.start
        if row.turn or spawn is None or spawn.after is None or start.live[row.conversation]:
            return False
        parent = self.sent.get(spawn.after)
        if parent is None:
            return self.whole or not spawn.at_issue
        return row.send_ns < (parent.send_ns if spawn.at_issue else parent.end_ns)

    def late_ns(self, row: SentRequest, turn: Turn) -> list[int]:
        """Return how long after the earliest instant a request was sent, if that is known.

        That is its predecessor's live end and the recorded gap, less what idle caps skipped, or
        the end of a request it follows. Not known if the predecessor ended before the window, and
        if a join holds the request.
        """
        before = self.sent.get(TurnId(row.conversation, row.turn - 1))
        if before is None or before.phase != Phase.WINDOW or turn.joins:
            return []
        earliest_ns = before.end_ns + round(turn.gap_s * NS_PER_S) - row.skipped_ns
        followed = [self.sent[each].end_ns for each in turn.after if each in self.sent]
        return [row.send_ns - max((earliest_ns, *followed))]

    def abandoned(self) -> int:
        """Return how many requests were never sent as their conversation, or its parent,
        overflowed.
        """
        conversations = self.planned.graph.conversations
        return sum(len(conversations[s].turns) - 1 - turn for s, turn in self.given_up.items())


def _never_spawned(conversation: Conversation, given_up: Mapping[int, int]) -> bool:
    """Whether the turn that spawns a conversation was given up, or overflowed before it spawned
    any.
    """
    if conversation.spawn is None or conversation.spawn.after is None:
        return False
    parent, turn = conversation.spawn.after
    if parent not in given_up:
        return False
    return turn > given_up[parent] or (turn == given_up[parent] and not conversation.spawn.at_issue)


# -- what ------------------------------------------------------------------------------------------


def _prefix_counts(planned: PlannedPlay, rows: Iterable[SentRequest]) -> Counter[str]:
    session = planned.session
    declarable = _declarable_blocks(session)
    prompts: set[tuple[int, int]] = set()
    counts: Counter[str] = Counter()
    for row, recorded, blocks in _recorded_prefixes(planned, rows):
        counts["prefixes"] += min(row.kept_blocks, recorded.whole_blocks) != recorded.kept_blocks
        counts["overdeclared"] += row.declared_blocks > declarable
        sent_kept = min(row.conversation_kept_blocks, recorded.whole_blocks)
        for name, kept in (("recorded", recorded.conversation_kept_blocks), ("sent", sent_kept)):
            if 2 * kept < recorded.before_blocks:
                counts[f"resets_{name}"] += 1
                counts[f"reset_kept_tokens_{name}"] += kept * session.block_size
        counts["repeated_prompts"] += blocks in prompts
        prompts.add(blocks)
    return counts


class _Recorded(NamedTuple):
    """What the recording says of a prompt, given what the play had sent: its whole blocks, those
    kept of any earlier prompt, those kept of the conversation's prompt before and the latter's
    blocks.
    """

    whole_blocks: int
    kept_blocks: int
    conversation_kept_blocks: int
    before_blocks: int


def _recorded_prefixes(
    planned: PlannedPlay, rows: Iterable[SentRequest]
) -> Iterator[tuple[SentRequest, _Recorded, tuple[int, int]]]:
    """Yield each request with the recording's account of it and what names its prompt."""
    session = planned.session
    held = np.zeros(len(session.blocks), bool)
    last: dict[int, NDArray[np.uint64]] = {}
    for row in rows:
        request = planned.graph.conversations[row.conversation].turns[row.turn].request
        path = session.blocks.path(request.tip_block)[: _whole_blocks(session, request)]
        missing = np.flatnonzero(~held[path])
        kept = int(missing[0]) if len(missing) else len(path)
        held[path] = True
        prompt = path.astype(np.uint64)
        before = last.get(row.conversation, prompt[:0])
        last[row.conversation] = prompt
        recorded = _Recorded(len(path), kept, common_blocks(before, prompt), len(before))
        yield row, recorded, (request.tip_block, request.input_tokens)


def _whole_blocks(session: Session, request: RecordedRequest) -> int:
    """Return how many of a request's blocks lie wholly inside its recorded input."""
    return min(request.block_count, request.input_tokens // session.block_size)


def _declarable_blocks(session: Session) -> int:
    """Return the longest prefix, in blocks, that the recording calls tools and system prompt."""
    owners: list[Session | Subagent] = [session]
    owners += [entry for entry in session.entries if isinstance(entry, Subagent)]
    tokens = max(owner.tool_tokens + owner.system_tokens for owner in owners)
    return (tokens + session.block_size // 2) // session.block_size


# --- plays that a kill cut off: nobody wrote their rows, so their responses tell of them ---


def cut_off_plays(requests: pa.Table, plays: pa.Table) -> frozenset[tuple[int, int]]:
    """Return the (lane, play number) of plays that have responses on record and no own row."""
    return frozenset(_keys(requests) - _keys(plays))


def with_live_plays(requests: pa.Table, plays: pa.Table) -> pa.Table:
    """Return the plays with those that were cut off (``_PLAY_COLUMNS``).

    A lane's next play starts where the one before it ended; where that is not on record, the one
    before ended no later than the next one's first request. The last of a lane has no end: it lived
    on, or was followed at once by another.
    """
    known = {
        (row["lane"], row["play_number"]): row for row in plays.select(_PLAY_COLUMNS).to_pylist()
    }
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
    schema = pa.schema([plays.schema.field(name) for name in _PLAY_COLUMNS])
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
