"""What ``sweep.json`` says of rules, prompts, server and client, in words for the page.

A field without words of its own is shown by its name, so that nothing is left out for being new.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentx_replay.wording import counted

_Phrase = Callable[[Any], str | None]
"""From a field's value to what is said of it; None says nothing."""


def rules_words(scenario: Mapping[str, Any]) -> str:
    """Return a scenario's rules."""
    return _said(scenario, _RULES)


def prompts_words(calibration: Mapping[str, Any]) -> str:
    """Return what prompts were made of, as calibrated."""
    return _said(calibration, _PROMPTS)


def server_words(target: Mapping[str, Any]) -> str:
    """Return what the server told of itself."""
    return _said(target, _SERVER)


def client_words(host: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    """Return on what the client ran."""
    return _said({**host, **versions}, _CLIENT)


def plainly(value: Any) -> str:
    """Return a JSON value in words: ``name value, name value``; yes, no, none."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plainly(each)}" for key, each in value.items()) or "nothing"
    if isinstance(value, list | tuple):
        return ", ".join(map(plainly, value)) or "none"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _said(document: Mapping[str, Any], phrases: Mapping[str, _Phrase]) -> str:
    """Return what is said of a document's fields, those with words of their own first."""
    order = [
        *(key for key in phrases if key in document),
        *(k for k in document if k not in phrases),
    ]
    parts = [_phrase(key, document[key], phrases.get(key)) for key in order]
    return "; ".join(part for part in parts if part) or "nothing"


def _phrase(key: str, value: Any, phrase: _Phrase | None) -> str | None:
    try:
        if phrase is not None:
            return phrase(value)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # of another kind than this version writes: shown as it stands
    return f"{key} {plainly(value)}"


def _unsaid(_: Any) -> None:
    return None


def _seconds(what: str) -> _Phrase:
    return lambda value: f"{what} {value:g} s"


def _fact(yes: str, no: str | None) -> _Phrase:
    return lambda value: yes if value else no


def _names(what: str, none: str | None) -> _Phrase:
    def said(values: Sequence[Any]) -> str | None:
        return f"{what} {', '.join(map(str, values))}" if values else none

    return said


def _warnings(values: Sequence[Any]) -> str | None:
    """Say the warnings; an older version wrote texts."""
    texts = [each if isinstance(each, str) else each["text"] for each in values]
    return f"warnings: {', '.join(texts)}" if texts else None


def _start(fraction: Sequence[float]) -> str:
    return f"first sessions begin between {fraction[0]:.0%} and {fraction[1]:.0%} of their length"


def _costs(cost: Mapping[str, Any]) -> str | None:
    roles = [
        f"{each} {counted(cost[each], 'token')}"
        for each in ("system", "user", "assistant")
        if each in cost
    ]
    parts = [f"a message costs beside its words: {', '.join(roles)}"] if roles else []
    parts += [
        f"a prompt {when} {counted(cost[key], 'token')}"
        for key, when in (
            ("with_system", "with a system message"),
            ("without_system", "without one"),
        )
        if key in cost
    ]
    if cost.get("tool_messages"):
        parts.append(
            "answers are sent as tool calls and what follows as their results: a call costs "
            f"{counted(cost['call'], 'token')} (the first {cost['call'] + cost['first_call']:,}), "
            f"a result {counted(cost['result'], 'token')}"
        )
    if not cost.get("takes_system", True):
        parts.append("the template takes no system message")
    if cost.get("assumed"):
        parts.append("assumed, not measured")
    return ", ".join(parts) or None


def _proof(of: Mapping[str, Any] | None) -> str:
    if of is None:
        return "not proved on probes"
    return (
        f"{of['exact']} of {counted(of['probes'], 'probe')} exact, the largest error "
        f"{counted(of['largest_error_tokens'], 'token')}, the longest "
        f"{counted(of['longest_tokens'], 'token')}, up to {counted(of['most_messages'], 'message')}"
    )


def _urls(url: Any) -> str:
    return "at " + (", ".join(map(str, url)) if isinstance(url, list) else str(url))


_RULES: dict[str, _Phrase] = {
    "name": _unsaid,
    "fingerprint": _unsaid,
    "window_s": _seconds("window"),
    "grace_s": _seconds("drain up to"),
    "warmup_requests": lambda value: f"{counted(value, 'pressure request')} a lane in the warm-up",
    "warmup_timeout_s": _seconds("warm-up given up after"),
    "seed": lambda value: f"seed {value}",
    "start_fraction": _start,
    "primer_lead_s": _seconds("primers sent over at most"),
    "system_idle_cap_s": _seconds("idle time of all lanes together skipped past"),
    "tree_idle_cap_s": _seconds("that of a single session past"),
    "tree_idle_from": lambda value: {
        "barrier": "counted for all from the window's opening",
        "last_end": "counted from each one's own last end",
    }.get(value),
    "reading": lambda value: f"recordings read the {value} way",
    "max_sessions": lambda value: (
        "all sessions that fit" if value is None else f"the first {counted(value, 'session')}"
    ),
    "shared_prefix": lambda value: f"system prompts shared within one {value}",
    "comparable": _fact("results of these rules are comparable", "for a quick look only"),
    "overridden": _names("changed from the scenario:", "no rule changed"),
}
_PROMPTS: dict[str, _Phrase] = {
    "format": _unsaid,
    "words": lambda value: counted(value, "word"),
    "source": lambda value: f"from {value}",
    "ids": lambda value: f"{counted(value, 'token id')}" if value else None,
    "opening": lambda value: f"each prompt opened by {value!r}",
    "cost": _costs,
    "verification": _proof,
    "counted_by": lambda value: f"counted by {value}" if value else None,
    "model": lambda value: f"for the model {value}",
    "api": lambda value: f"by the {value} API",
    "warnings": _warnings,
}
_SERVER: dict[str, _Phrase] = {
    "kind": str,
    "model": lambda value: f"model {value}",
    "url": _urls,
    "server": lambda value: f"names itself {value}" if value else "does not name itself",
    "max_model_len": lambda value: (
        "context limit not told" if value is None else f"context limit {counted(value, 'token')}"
    ),
    "served_models": _names("serves", "lists no models"),
    "max_tokens_field": lambda value: f"output limited by {value}",
    "ignore_eos": _fact("generates up to the limit asked", "may end before the limit asked"),
    "usage_reported": _fact("reports usage", "reports no usage"),
    "cached_tokens_reported": _fact("reports cached tokens", "reports no cached tokens"),
    "keep_alive_s": lambda value: (
        "announces no keep-alive" if value is None else f"keep-alive {value:g} s"
    ),
    "metrics": _names("metrics read from", "no metrics page"),
}
_CLIENT: dict[str, _Phrase] = {
    "platform": str,
    "cpus": lambda value: counted(value, "CPU"),
    "agentx-replay": lambda value: f"agentx-replay {value}",
    "python": lambda value: f"Python {value}",
}
