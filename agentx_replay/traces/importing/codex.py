"""Codex's rollouts: ``sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl``, one thread a file.

A request is a ``token_count`` event whose running total has changed. A thread that another one
spawned is its subagent; one that was forked is a session of its own. Both begin with a replay of
their parent's counters, under new timestamps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.traces.importing.lines import (
    Place,
    first_objects,
    milliseconds,
    objects,
    record,
    text,
    tokens,
)
from agentx_replay.traces.importing.record import (
    ImportedSession,
    ImportedSubagent,
    Ledger,
    Notes,
    grouped,
    root_of,
)
from agentx_replay.traces.importing.sharing import Call, by_turns, conversation

_GRACE_MS = 500
"""An input may be logged this long before the event that ends the request ahead of it."""
_REPLAY_MS = 2_000
"""How long after a thread's own start its parent's counters are still being replayed."""

_INPUT_ITEMS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_WAIT_TOOLS = ("wait", "wait_agent")

_Total = tuple[int, ...]
"""Input, cached, output and reasoning tokens of a thread so far."""
_COUNTERS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")

REPORTED = "input tokens cached, as the server reported"
STRUCTURE = "input tokens shared, by structure"
REEMITTED = "token counts sent again"
RATE_LIMITS = "token counts without a count (rate limits)"
REPLAYED = "token counts replayed from a parent"
ABORTED = "turns aborted (their last request is not counted)"
FORKED = "input tokens that forks share with the thread they left (not replayed)"


@dataclass(frozen=True, slots=True)
class _Thread:
    """The head of a rollout. ``parent`` spawned it, ``forked`` is the thread it was copied from."""

    file: Path
    name: str
    start_ms: int
    parent: str = ""
    role: str = ""
    forked: str = ""


def read_codex(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield the sessions of rollouts in order of their start, each with the threads it spawned."""
    threads: dict[str, _Thread] = {}
    for file in files:
        thread = _head(file)
        if thread is None:
            ledger.refused.append(
                f"{file}: no session_meta: older than Codex 0.4x, without token counts"
            )
        elif thread.name in threads:
            ledger.leave_out("rollout of a thread that another file has", str(file))
        else:
            threads[thread.name] = thread
    parents = {thread.name: thread.parent for thread in threads.values()}
    ordered = sorted(threads.values(), key=lambda thread: (thread.start_ms, thread.name))
    families = grouped((root_of(thread.name, parents), thread) for thread in ordered)
    for name, family in families.items():
        with ledger.refusing():
            if session := _session(threads[name], family, threads, ledger):
                yield session


def _head(file: Path) -> _Thread | None:
    for line in first_objects(file):
        if line.get("type") == "session_meta":
            told = record(line, "payload")
            spawned = record(record(record(told, "source"), "subagent"), "thread_spawn")
            start_ms = milliseconds(told.get("timestamp")) or milliseconds(line.get("timestamp"))
            return _Thread(
                file,
                text(told, "id") or str(file),
                start_ms or 0,
                text(spawned, "parent_thread_id"),
                text(spawned, "agent_role"),
                text(told, "forked_from_id"),
            )
    return None


def _session(
    root: _Thread, family: Sequence[_Thread], threads: Mapping[str, _Thread], ledger: Ledger
) -> ImportedSession | None:
    notes = Notes()
    rollouts = {root.name: _rollout(root, threads, notes, ledger)}
    calls = rollouts[root.name].calls
    if not calls:
        ledger.refused.append(f"{root.file}: no token counts, so no lengths")
        return None
    if root.forked:
        notes.facts[FORKED] += calls[0].cached_tokens
    rollouts |= {
        each.name: _rollout(each, threads, notes, ledger) for each in family if each is not root
    }
    agents = [
        _subagent(each, rollouts[each.name], rollouts.get(each.parent), notes)
        for each in family
        if each is not root and rollouts[each.name].calls
    ]
    main = conversation(calls, by_turns, notes)
    session = ImportedSession(
        name=root.name,
        requests=main.requests,
        subagents=tuple(agents),
        system_tokens=main.standing_tokens,
        project=str(root.file.parent),
        notes=notes,
    )
    notes.facts[REPORTED] += sum(
        each.cached_tokens for of in rollouts.values() for each in of.calls
    )
    notes.facts[STRUCTURE] += sum(each.shared_tokens for each in session.all_requests())
    return session


def _subagent(
    thread: _Thread, rollout: "_Rollout", parent: "_Rollout | None", notes: Notes
) -> ImportedSubagent:
    """Return a spawned thread: joined if its parent was waiting when it ended, else not."""
    ended_ms = max(call.end_ms or call.start_ms for call in rollout.calls)
    joins_ms = [
        output_ms
        for call_ms, output_ms in (parent.waits_ms if parent else ())
        if call_ms <= ended_ms <= output_ms
    ]
    return ImportedSubagent(
        spawn_ms=thread.start_ms,
        join_ms=min(joins_ms, default=None),
        kind=thread.role,
        requests=conversation(rollout.calls, by_turns, notes).requests,
    )


def _rollout(
    thread: _Thread, threads: Mapping[str, _Thread], notes: Notes, ledger: Ledger
) -> "_Rollout":
    """Return what a rollout says. Raises ``UsageError`` for counts that are none."""
    parent = threads.get(thread.parent or thread.forked)
    rollout = _Rollout(thread, _totals(parent.file) if parent else None, notes)
    for place, line in objects(thread.file, ledger):
        rollout.take(place, line, ledger)
    return rollout


def _totals(file: Path) -> set[_Total]:
    """Return every running total of a rollout."""
    counts = (record(record(line, "payload"), "info") for _, line in objects(file, Ledger()))
    return {_counters(info, "total_token_usage", (file, 0)) for info in counts if info}


def _counters(info: dict[str, Any], key: str, place: Place) -> _Total:
    usage = record(info, key)
    return tuple(tokens(usage, each, place) for each in _COUNTERS)


class _Rollout:
    """What the lines of a rollout say: its calls, and the spans in which it waited for others."""

    def __init__(self, thread: _Thread, parent_totals: set[_Total] | None, notes: Notes) -> None:
        self.calls: list[Call] = []
        self.waits_ms: list[tuple[int, int]] = []
        self._thread = thread
        self._parent_totals = parent_totals
        self._notes = notes
        self._replaying = bool(thread.parent or thread.forked)
        self._total: _Total = (0, 0, 0, 0)
        self._model = ""
        self._input_ms: int | None = None
        self._next_input_ms: int | None = None
        self._answering = False
        self._ended_ms: int | None = None
        self._new_turn = self._compacted = False
        self._waiting_since_ms: dict[str, int] = {}

    def take(self, place: Place, line: dict[str, Any], ledger: Ledger) -> None:
        kind, payload = line.get("type"), record(line, "payload")
        ms = milliseconds(line.get("timestamp"))
        if ms is None:
            ledger.leave_out("line without a timestamp", place)
        elif kind == "turn_context":
            self._model = text(payload, "model") or self._model
            self._input(ms)
        elif kind == "response_item":
            self._item(ms, payload)
        elif kind == "compacted":
            self._compacted = True
        elif kind == "event_msg":
            self._event(place, ms, payload)

    def _input(self, ms: int) -> None:
        """Note an input; once the response has begun, it is the next request's."""
        if self._answering:
            self._next_input_ms = max(ms, self._next_input_ms or ms)
        else:
            self._input_ms = max(ms, self._input_ms or ms)

    def _item(self, ms: int, item: dict[str, Any]) -> None:
        kind, call = item.get("type"), text(item, "call_id")
        if kind in _INPUT_ITEMS or (kind == "message" and item.get("role") != "assistant"):
            self._input(ms)
        else:
            self._answering = True
        if kind == "function_call" and item.get("name") in _WAIT_TOOLS:
            self._waiting_since_ms[call] = ms
        elif kind in _INPUT_ITEMS and call in self._waiting_since_ms:
            self.waits_ms.append((self._waiting_since_ms.pop(call), ms))

    def _event(self, place: Place, ms: int, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "user_message":
            self._new_turn = True
            self._input(ms)
        elif kind == "context_compacted":
            self._compacted = True
        elif kind == "turn_aborted":
            self._notes.facts[ABORTED] += 1
        elif kind == "token_count":
            self._count(place, ms, record(event, "info"))

    def _count(self, place: Place, ms: int, info: dict[str, Any]) -> None:
        if not info:
            self._notes.facts[RATE_LIMITS] += 1
            return
        total = _counters(info, "total_token_usage", place)
        if self._replaying and self._is_replay(ms, total):
            self._notes.facts[REPLAYED] += 1
            self._total = total
        elif total == self._total:
            self._notes.facts[REEMITTED] += 1
        else:
            self._replaying = False
            self._request(ms, self._used(place, total, info))
            self._total = total

    def _is_replay(self, ms: int, total: _Total) -> bool:
        if self._parent_totals is not None:
            return total in self._parent_totals
        return ms - self._thread.start_ms <= _REPLAY_MS

    def _used(self, place: Place, total: _Total, info: dict[str, Any]) -> _Total:
        """Return the counts of the last request, the difference of totals if they are missing."""
        last = _counters(info, "last_token_usage", place)
        grown = tuple(after - before for after, before in zip(total, self._total, strict=True))
        is_snapshot = last == total and grown[0] < last[0]
        if (is_snapshot or not last[0]) and min(grown) >= 0:
            return grown
        return last

    def _request(self, ms: int, used: _Total) -> None:
        input_tokens, cached_tokens, output_tokens, _ = used
        if not input_tokens:
            return
        self.calls.append(
            Call(
                start_ms=self._start_ms(ms),
                end_ms=ms,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                model=self._model,
                cached_tokens=cached_tokens,
                compacted=self._compacted,
                new_turn=self._new_turn,
            )
        )
        self._ended_ms = ms
        self._input_ms, self._next_input_ms = self._next_input_ms, None
        self._answering = False
        self._new_turn = self._compacted = False

    def _start_ms(self, ended_ms: int) -> int:
        """Return when a request started: at its latest input, or as the one ahead ended."""
        since_ms = self._ended_ms
        if self._input_ms is not None and (
            since_ms is None or self._input_ms >= since_ms - _GRACE_MS
        ):
            return min(self._input_ms, ended_ms)
        return since_ms if since_ms is not None else ended_ms
