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

OUT_OF_ORDER = "starts before the request ahead (moved to its start)"
EXPIRED = "cache expired: prompt taken to go on from the one before"
MODEL_SWITCH = "model switched: prompt taken to go on from the one before"
REBUILT, GOES_ON = "rebuilt", ""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request as a server counted it.

    ``input_tokens`` is the whole prompt: ``cached_tokens`` came from the cache and
    ``written_tokens`` were added to it. ``parent`` is the index of the call whose conversation it
    goes on from; None for the one before it. ``parts`` are the type, role and tokens of each part
    of the prompt where a log has them.
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
    parts: tuple[tuple[str, str, int], ...] = ()

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
"""From a call's parent and the call to the tokens that their prompts share, which the shorter
prompt bounds, and how it goes on: ``REBUILT`` if no more than the standing prefix was kept."""


def by_cache(before: Call, call: Call) -> tuple[int, str]:
    """Return what an Anthropic prompt shares with the one before it, in tokens, and why."""
    cached_before = before.cached_tokens + before.written_tokens
    lives_ms = _LONG_CACHE_MS if before.one_hour_cache else _SHORT_CACHE_MS
    if call.compacted:
        return call.cached_tokens, REBUILT
    if call.model != before.model:  # caches are per model; the content goes on
        return cached_before, MODEL_SWITCH
    if call.cached_tokens >= cached_before:
        return call.cached_tokens, GOES_ON
    if call.start_ms - before.start_ms > lives_ms:
        return cached_before, EXPIRED
    return call.cached_tokens, REBUILT


def by_turns(before: Call, call: Call) -> tuple[int, str]:
    """Return what a prompt of the Responses API shares with the one before it, and why.

    A new user message drops the reasoning of the turn before, so the prompt is the same only up
    to the first prompt of that turn. What is cached after a compaction is a lower bound, so it is
    not taken for the standing prefix.
    """
    if call.new_turn and not call.compacted:
        return max(before.turn_first_input, call.cached_tokens), GOES_ON
    is_cut = call.compacted or call.input_tokens < before.input_tokens
    return call.cached_tokens if is_cut else before.input_tokens, GOES_ON


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
    ordered = _in_order(calls, notes)
    for index, call in enumerate(ordered):
        (parent, shared), kind = first, GOES_ON
        if index:
            at = index - 1 if call.parent is None else call.parent
            parent, (shared, kind) = requests[at], rule(ordered[at], call)
        most = min(parent.input_tokens, call.input_tokens) if parent else 0
        requests.append(call.request(parent, min(shared, most)))
        if kind in (EXPIRED, MODEL_SWITCH):
            notes.assumed[kind] += 1
        if kind == REBUILT and call.cached_tokens:
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


def _in_order(calls: Sequence[Call], notes: Notes) -> list[Call]:
    """Return calls none of which starts before the one ahead, nor ends before it starts.

    Each has the input of the first call of its turn.
    """
    ordered: list[Call] = []
    for call in calls:
        start_ms = call.start_ms
        turn_first_input = call.input_tokens
        if ordered and not (call.new_turn or call.compacted):
            turn_first_input = ordered[-1].turn_first_input
        if ordered and start_ms < ordered[-1].start_ms:
            notes.assumed[OUT_OF_ORDER] += 1
            start_ms = ordered[-1].start_ms
        end_ms = None if call.end_ms is None else max(call.end_ms, start_ms)
        timed = replace(call, start_ms=start_ms, end_ms=end_ms, turn_first_input=turn_first_input)
        ordered.append(timed)
    return ordered
