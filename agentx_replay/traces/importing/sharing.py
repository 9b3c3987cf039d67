"""How much of a prompt its predecessor had already sent, from what the server counted.

Two rules, of two kinds of prompt cache. Anthropic's reports what it read and wrote, so a prompt's
shared prefix follows exactly (``by_cache``). OpenAI's reports a lower bound, so the structure of
turns decides (``by_turns``). Measured on 876 and 487 transitions of real logs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from agentx_replay.traces.importing.record import ImportedSession, Notes, Request

_SHORT_CACHE_MS = 300_000
_LONG_CACHE_MS = 3_600_000
"""How long Anthropic keeps a cached prefix after its last use, by what the request paid for."""

FIRST, APPEND, COMPACTION = "first", "append", "compaction"
MODEL_SWITCH, EXPIRED, BREAK = "model switch", "expired", "break"
NEW_TURN, EDITED = "new turn", "context edited"

OUT_OF_ORDER = "starts before the request ahead (moved to its start)"
_ASSUMED = {
    EXPIRED: "cache expired: prompt taken to go on from the one before",
    MODEL_SWITCH: "model switched: prompt taken to go on from the one before",
}


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request as a server counted it.

    ``input_tokens`` is the whole prompt: ``cached_tokens`` came from the cache and
    ``written_tokens`` were added to it. ``parent`` is the index of the call whose conversation it
    goes on from; None for the one before it.
    """

    start_ms: int
    end_ms: int | None
    input_tokens: int
    output_tokens: int
    model: str
    cached_tokens: int = 0
    written_tokens: int = 0
    one_hour_cache: bool = False
    compacted: bool = False
    new_turn: bool = False
    turn_first_input: int = 0
    parent: int | None = None

    def request(
        self,
        parent: Request | None = None,
        shared_tokens: int = 0,
        block_ids: Sequence[int] | None = None,
    ) -> Request:
        return Request(
            self.start_ms, self.end_ms, self.input_tokens, self.output_tokens, self.model,
            parent, shared_tokens, block_ids,
        )  # fmt: skip


Rule = Callable[[Call, Call], tuple[int, str]]
"""From a call's parent and the call to the shared tokens and the kind of transition."""


def by_cache(before: Call, call: Call) -> tuple[int, str]:
    """Return what an Anthropic prompt shares with the one before it, in tokens, and why."""
    cached_before = before.cached_tokens + before.written_tokens
    lives_ms = _LONG_CACHE_MS if before.one_hour_cache else _SHORT_CACHE_MS
    if call.compacted:
        shared, kind = call.cached_tokens, COMPACTION
    elif call.model != before.model:  # caches are per model; the content goes on
        shared, kind = cached_before, MODEL_SWITCH
    elif call.cached_tokens >= cached_before:
        shared, kind = call.cached_tokens, APPEND
    elif call.start_ms - before.start_ms > lives_ms:
        shared, kind = cached_before, EXPIRED
    else:
        shared, kind = call.cached_tokens, BREAK
    return min(shared, before.input_tokens, call.input_tokens), kind


def by_turns(before: Call, call: Call) -> tuple[int, str]:
    """Return what a prompt of the Responses API shares with the one before it, and why.

    A new user message drops the reasoning of the turn before, so the prompt is the same only up
    to the first prompt of that turn.
    """
    if call.compacted:
        shared, kind = call.cached_tokens, COMPACTION
    elif call.new_turn:
        kept = min(call.cached_tokens, before.input_tokens)
        shared, kind = max(before.turn_first_input, kept), NEW_TURN
    elif call.input_tokens >= before.input_tokens:
        shared, kind = before.input_tokens, APPEND
    else:
        shared, kind = call.cached_tokens, EDITED
    return min(shared, before.input_tokens, call.input_tokens), kind


@dataclass(frozen=True, slots=True)
class Conversation:
    """The requests of one stream, and the length of its standing prefix, 0 if not known.

    A compaction or a rebuilt prompt keeps tools and system prompt alone; without one, what the
    first request found in the cache was the standing prefix of other sessions.
    """

    requests: tuple[Request, ...]
    standing_tokens: int


def conversation(
    calls: Sequence[Call], rule: Rule, notes: Notes, first: tuple[Request | None, int] = (None, 0)
) -> Conversation:
    """Return the calls of one stream, in its order, as requests.

    ``first`` is the request of another stream that the first call goes on from, and what the two
    share in tokens. No request starts before the one ahead of it: such a start is moved, counted.
    """
    requests: list[Request] = []
    kept_tokens: list[int] = []
    ordered = in_order(calls, notes)
    for index, call in enumerate(ordered):
        (parent, shared), kind = first, FIRST
        if index:
            at = index - 1 if call.parent is None else call.parent
            parent, (shared, kind) = requests[at], rule(ordered[at], call)
        requests.append(call.request(parent, shared))
        if kind in _ASSUMED:
            notes.assumed[_ASSUMED[kind]] += 1
        if kind in (COMPACTION, BREAK) and call.cached_tokens:
            kept_tokens.append(call.cached_tokens)
    first_call = ordered[0]
    found_tokens = first_call.cached_tokens
    standing_tokens = found_tokens if found_tokens < first_call.input_tokens else 0
    if kept_tokens:
        standing_tokens = min(*kept_tokens, first_call.input_tokens)
    return Conversation(tuple(requests), standing_tokens)


def one_stream(name: str, calls: Sequence[Call], rule: Rule, project: str = "") -> ImportedSession:
    """Return the calls of one stream as a session without subagents."""
    notes = Notes()
    main = conversation(calls, rule, notes)
    return ImportedSession(
        name, main.requests, system_tokens=main.standing_tokens, project=project, notes=notes
    )


def in_order(calls: Sequence[Call], notes: Notes) -> list[Call]:
    """Return calls none of which starts before the one ahead, nor ends before it starts."""
    ordered: list[Call] = []
    for call in calls:
        start_ms = call.start_ms
        if ordered and start_ms < ordered[-1].start_ms:
            notes.assumed[OUT_OF_ORDER] += 1
            start_ms = ordered[-1].start_ms
        end_ms = None if call.end_ms is None else max(call.end_ms, start_ms)
        if (start_ms, end_ms) != (call.start_ms, call.end_ms):
            call = replace(call, start_ms=start_ms, end_ms=end_ms)
        ordered.append(call)
    return ordered
