"""OpenTelemetry as OTLP JSON lines: GenAI spans, and the events of Claude Code's own telemetry.

Written by the semantic conventions, which are still in development; no real file was read. Messages
are attributes of their own and are never looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.traces.importing.lines import (
    Place,
    bad_field,
    count,
    record,
    records,
    rows,
    span_ms,
    text,
)
from agentx_replay.traces.importing.record import (
    ImportedSession,
    ImportedSubagent,
    Ledger,
    Notes,
    grouped,
)
from agentx_replay.traces.importing.sharing import Call, Rule, by_cache, by_turns, conversation
from agentx_replay.units import NS_PER_MS

_CALLS = ("chat", "text_completion", "generate_content")
_AGENT = "invoke_agent"
_API_REQUEST = "claude_code.api_request"

_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
)
_WRITTEN = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
)
"""Names of one count, the convention's own first, then those of known instrumentations."""

_NS_DIGITS = 20
_SpanId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Span:
    """A span that is an agent, or a call with its session, or neither but a parent of others."""

    parent: _SpanId
    start_ms: int
    end_ms: int
    is_agent: bool
    session: str = ""
    call: Call | None = None
    writes_cache: bool = False


def read_otel(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield a session for each conversation; agents invoked by an agent are its subagents."""
    spans: dict[_SpanId, _Span] = {}
    for found in rows(files, ledger, _spans):
        spans |= found
    calls = [(span.session, key) for key, span in spans.items() if span.call is not None]
    calls.sort(key=lambda call: spans[call[1]].start_ms)
    for name, keys in grouped(calls).items():
        yield _session(name, keys, spans)


def _session(name: str, keys: Sequence[_SpanId], spans: Mapping[_SpanId, _Span]) -> ImportedSession:
    notes = Notes()
    rule: Rule = by_cache if any(spans[key].writes_cache for key in keys) else by_turns
    by_agent = grouped(
        (_inner_agent(key, spans), call) for key in keys if (call := spans[key].call) is not None
    )
    main = by_agent.pop(None, [])
    agents = [
        ImportedSubagent(
            spawn_ms=spans[agent].start_ms,
            join_ms=spans[agent].end_ms,
            kind="",
            requests=conversation(calls, rule, notes).requests,
        )
        for agent, calls in by_agent.items()
        if agent is not None
    ]
    # If every call is a subagent's, there is nobody to wait for them.
    requests = conversation(main, rule, notes).requests if main else agents.pop(0).requests
    return ImportedSession(name, requests, tuple(agents), notes=notes)


def _inner_agent(key: _SpanId, spans: Mapping[_SpanId, _Span]) -> _SpanId | None:
    """Return the agent that made a call, None for the outermost one and for a call without one."""
    agents: list[_SpanId] = []
    passed: set[_SpanId] = set()
    while key in spans and key not in passed:
        passed.add(key)
        if spans[key].is_agent:
            agents.append(key)
        key = spans[key].parent
    return agents[0] if len(agents) > 1 else None


def _spans(place: Place, line: dict[str, Any]) -> dict[_SpanId, _Span]:
    found: dict[_SpanId, _Span] = {}
    for resource in records(line, "resourceSpans"):
        for scope in records(resource, "scopeSpans"):
            for span in records(scope, "spans"):
                key = text(span, "traceId"), text(span, "spanId")
                found[key] = _span(place, span)
    for resource in records(line, "resourceLogs"):
        for scope in records(resource, "scopeLogs"):
            for number, event in enumerate(records(scope, "logRecords")):
                if (request := _api_request(place, event)) is not None:
                    found[f"{place}", f"{id(scope)} {number}"] = request
    return found


def _span(place: Place, span: dict[str, Any]) -> _Span:
    told = _attributes(span)
    trace, operation = text(span, "traceId"), told.get("gen_ai.operation.name")
    start_ms, end_ms = _ms(place, span, "startTimeUnixNano"), _ms(place, span, "endTimeUnixNano")
    is_call = operation in _CALLS or (operation is None and text(span, "name").startswith("chat "))
    whole = _count(place, told, _INPUT)
    cached, written = _count(place, told, _CACHED), _count(place, told, _WRITTEN)
    if cached + written > whole:  # Anthropic's own input, which leaves out what was cached
        whole += cached + written
    call = Call(
        start_ms=start_ms,
        end_ms=end_ms,
        input_tokens=whole,
        output_tokens=_count(place, told, _OUTPUT),
        model=text(told, "gen_ai.request.model"),
        cached_tokens=cached,
        written_tokens=written,
    )
    return _Span(
        parent=(trace, text(span, "parentSpanId")),
        start_ms=start_ms,
        end_ms=end_ms,
        is_agent=operation == _AGENT,
        session=text(told, "gen_ai.conversation.id") or text(told, "session.id") or trace,
        call=call if is_call and whole else None,
        writes_cache=any(name in told for name in _WRITTEN),
    )


def _api_request(place: Place, event: dict[str, Any]) -> _Span | None:
    """Return a request of Claude Code's telemetry, whose event comes as it ends."""
    told = _attributes(event)
    names = (text(record(event, "body"), "stringValue"), text(told, "event.name"))
    if not {_API_REQUEST, _API_REQUEST.partition(".")[2]} & set(names):
        return None
    end_ms = _ms(place, event, "timeUnixNano")
    start_ms = end_ms - _count(place, told, ("duration_ms",))
    cached = _count(place, told, ("cache_read_tokens",))
    written = _count(place, told, ("cache_creation_tokens",))
    whole = _count(place, told, ("input_tokens",)) + cached + written
    output_tokens = _count(place, told, ("output_tokens",))
    call = Call(start_ms, end_ms, whole, output_tokens, text(told, "model"), cached, written)
    session = text(told, "session.id") or f"{place}"
    return _Span(("", ""), start_ms, end_ms, is_agent=False, session=session,
                 call=call if whole else None, writes_cache=True)  # fmt: skip


def _attributes(of: dict[str, Any]) -> dict[str, Any]:
    """Return attributes by name: numbers may be written as texts, as JSON's 64-bit integers are."""
    found: dict[str, Any] = {}
    for each in records(of, "attributes"):
        value = record(each, "value")
        found[text(each, "key")] = value.get(
            "intValue", value.get("doubleValue", value.get("stringValue"))
        )
    return found


def _count(place: Place, told: Mapping[str, Any], names: Sequence[str]) -> int:
    for name in names:
        if (value := told.get(name)) is not None:
            return count(place, name, _whole(value))
    return 0


def _whole(value: Any) -> Any:
    """Return a whole number written as a text or with a point as such, any other value as it is."""
    is_text = isinstance(value, str) and value.isdecimal() and len(value) <= _NS_DIGITS
    return int(value) if is_text or (isinstance(value, float) and value.is_integer()) else value


def _ms(place: Place, of: dict[str, Any], key: str) -> int:
    value = _whole(of.get(key))
    if type(value) is not int:
        raise bad_field(place, key, value, "nanoseconds")
    return span_ms(place, key, value // NS_PER_MS)
