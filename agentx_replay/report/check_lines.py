"""What ``check`` says: of a server's readiness, and of this client on this machine."""

from collections.abc import Iterable
from typing import Any

from agentx_replay.analysis.client_error import Ceiling, Driven
from agentx_replay.reason import Reason
from agentx_replay.text_format import counted


def server_lines(facts: dict[str, Any], warnings: tuple[Reason, ...]) -> list[str]:
    """Return what was found out about a server; ``facts`` are those of a target."""
    limit = facts["max_model_len"]
    kept = facts["keep_alive_s"]
    said = (
        ("model", facts["model"]),
        ("streaming", "yes"),
        ("usage", _yes(facts["usage_reported"])),
        ("cached tokens", _yes(facts["cached_tokens_reported"])),
        ("ignore_eos", _yes(facts["ignore_eos"])),
        ("context limit", "not told" if limit is None else f"{limit:,} tokens"),
        ("keep-alive", "not announced" if kept is None else f"{kept:g} s"),
        ("output limit field", facts["max_tokens_field"]),
    )
    lines = [f"server {facts['url']} ({facts['server'] or 'does not name itself'})"]
    lines += [f"  {name + ':':20}{value}" for name, value in said]
    fatal = invalidating(warnings)
    lines += [f"  warning: {each.text}" for each in warnings if each not in fatal]
    return lines + verdict_lines(warnings)


def verdict_lines(warnings: Iterable[Reason]) -> list[str]:
    """Return whether a run on a server can be valid, and if not how to mend each cause."""
    wrong = invalidating(warnings)
    if not wrong:
        return ["  PASS: a run on this server can be valid"]
    return [f"  FAIL: {each.text}; {remedy(each)}" for each in wrong]


_REMEDIES = {
    "server-without-usage": "start vLLM with --enable-force-include-usage, or have the proxy pass "
    "`stream_options` on",
    "server-usage-odd": "have the engine, or the proxy before it, count `usage` as the API does",
    "server-ends-early": "serve it with an engine that takes `ignore_eos` (vLLM, SGLang, "
    "llama.cpp), or have a proxy pass that on",
    "server-without-streaming": "have the engine, or the proxy before it, answer "
    '`"stream": true` with server-sent events',
    "server-cuts-prompts": "give Ollama OLLAMA_CONTEXT_LENGTH, llama.cpp --ctx-size, and SGLang no "
    "--allow-auto-truncate",
}
"""How to mend what leaves no run on a server valid, by the code of its warning."""


def invalidating(warnings: Iterable[Reason]) -> list[Reason]:
    """Return each warning that leaves no run on a server valid."""
    return [each for each in warnings if each.code in _REMEDIES]


def remedy(wrong: Reason) -> str:
    """Return the flag, by engine, that mends what is ``invalidating``."""
    return _REMEDIES[wrong.code]


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def client_line(timestamps: str) -> str:
    return (
        "client, one process, against a server that knows when each token left; timestamps by the "
        + timestamps
    )


def client_lines(driven: list[Driven], ceiling: Ceiling) -> list[str]:
    """Return whether the load can be measured here, and how much one worker can drive."""
    return _verdict_lines(judged(driven, ceiling)) + _ceiling_lines(ceiling)


def judged(driven: list[Driven], ceiling: Ceiling) -> list[Driven]:
    """Return the loads that say how a run would go here: those with its timestamps. Others are
    shown beside them.
    """
    return [each for each in driven if each.timestamps == ceiling.timestamps]


def _verdict_lines(driven: list[Driven]) -> list[str]:
    """Return whether the load asked for passed, in one line."""
    if not driven:
        return []
    asked = driven[0]
    rate = asked.planned_tokens_per_s / asked.streams
    load = f"{counted(asked.streams, 'stream')} of {rate:g} tok/s"
    if any(each.limits for each in driven):
        return [f"  FAIL: {load} is more than one process can measure accurately here"]
    return [f"  PASS: {load} can be measured accurately here (one trial of each kind)"]


def _ceiling_lines(ceiling: Ceiling) -> list[str]:
    streams = counted(ceiling.streams, "stream")
    if ceiling.ended is not None:
        return [f"  one worker: at least {streams} accurately in bursts ({ceiling.ended})"]
    return [
        f"  one worker: up to {streams} accurately in bursts; twice as many were too much, tried "
        "twice:",
        *(f"    {limit}" for limit in ceiling.limits),
    ]


def driven_lines(driven: Driven) -> list[str]:
    """Return the client's own error under a load."""
    how = "step-synchronised bursts" if driven.burst else "staggered"
    lines = [
        f"  {counted(driven.streams, 'stream')}, {how}, {driven.timestamps} timestamps: "
        f"{driven.tokens_per_s:,.0f} of {driven.planned_tokens_per_s:,.0f} tok/s, "
        f"{driven.cpu_us_per_token:.1f} µs of CPU a token"
    ]
    if driven.itl_error is not None:
        late = _ms(driven.stamp_error_p50_s, driven.stamp_error_p99_s, driven.stamp_error_p999_s)
        ttft = _ms(driven.ttft_error_p50_s, driven.ttft_error_p99_s)
        lines.append(
            f"    late by {late} ms (P50, P99, P99.9); {driven.late_event_share:.2%} by an unknown "
            "time"
        )
        lines.append(
            f"    TTFT too long by {ttft} ms (P50, P99); P90 ITL off by {driven.itl_error:.2%}"
        )
    return lines + [f"    too much: {limit}" for limit in driven.limits]


def _ms(*seconds: float | None) -> str:
    return ", ".join("?" if s is None else f"{s * 1e3:.3f}" for s in seconds)
