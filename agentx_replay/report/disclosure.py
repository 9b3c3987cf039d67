"""The five questions that every result must answer, from ``sweep.json`` and the run's levels.

A field of ``sweep.json`` without words of its own is shown by its name, so that nothing is left out
for being new.
"""

import time
from collections.abc import Mapping
from typing import Any

from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.run import Run
from agentx_replay.report.numerals import share
from agentx_replay.report.run_sections import uncertainty
from agentx_replay.report.tables import Section
from agentx_replay.wording import counted

BUILT_IN = "built-in simulator"
"""The kind of a target that a sweep without ``--url`` starts by itself."""
Words = Mapping[str, str | tuple[str, str] | Mapping[Any, str]]
"""By field, what is said of its value (``{}``); in pairs the second is said of none, false or an
empty list; a mapping is by value. Nothing is said if the text is empty.
"""

_ROLES = ("system", "user", "assistant")
RULES: Words = {
    "name": "",
    "fingerprint": "",
    "window_s": "window {} s",
    "grace_s": "drain up to {} s",
    "warmup_requests": "pressure requests a lane in the warm-up: {}",
    "warmup_timeout_s": "warm-up given up after {} s",
    "seed": "seed {}",
    "start_fraction": "first sessions begin between {} of their length",
    "primer_lead_s": "primers sent over at most {} s",
    "system_idle_cap_s": "idle time of all lanes together skipped past {} s",
    "tree_idle_cap_s": "that of a single session past {} s",
    "tree_idle_from": {
        "barrier": "counted for all from the window's opening",
        "last_end": "counted from each one's own last end",
    },
    "reading": "recordings read the {} way",
    "max_sessions": ("the first {} sessions", "all sessions that fit"),
    "order": {"corpus": "", "balanced": "sessions dealt so that the first are like all"},
    "shared_prefix": "system prompts shared within one {}",
    "comparable": ("results of these rules are comparable", "for a quick look only"),
    "overridden": ("changed from the scenario: {}", "no rule changed"),
}
PROMPTS: Words = {
    "format": "",
    "words": "{} words",
    "source": "from {}",
    "ids": ("{} token ids", ""),
    "opening": "each prompt opened by '{}'",
    "cost": "{}",
    "verification": ("{}", "not proved on probes"),
    "counted_by": ("counted by {}", ""),
    "model": "for the model {}",
    "api": "by the {} API",
    "warnings": ("warnings: {}", ""),
}
SERVER: Words = {
    "kind": "{}",
    "model": "model {}",
    "url": "at {}",
    "server": ("names itself {}", "does not name itself"),
    "max_model_len": ("context limit {} tokens", "context limit not told"),
    "served_models": ("serves {}", "lists no models"),
    "max_tokens_field": "output limited by {}",
    "ignore_eos": ("generates up to the limit asked", "may end before the limit asked"),
    "usage_reported": ("reports usage", "reports no usage"),
    "cached_tokens_reported": ("reports cached tokens", "reports no cached tokens"),
    "keep_alive_s": ("keep-alive {} s", "announces no keep-alive"),
    "metrics": ("metrics read from {}", "no metrics page"),
}
CLIENT: Words = {
    "platform": "{}",
    "cpus": "CPUs: {}",
    "agentx-replay": "agentx-replay {}",
    "python": "Python {}",
}


def in_words(document: Mapping[str, Any], words: Words) -> str:
    """Return what is said of a document's fields, those with words of their own first."""
    order = [
        *(key for key in words if key in document),
        *(key for key in document if key not in words),
    ]
    parts = (_phrase(key, document[key], words.get(key)) for key in order)
    return "; ".join(part for part in parts if part) or "nothing"


def _phrase(key: str, value: Any, words: str | tuple[str, str] | Mapping[Any, str] | None) -> str:
    if isinstance(words, Mapping) and isinstance(value, str) and value in words:
        return words[value]
    if isinstance(words, tuple):
        words = words[0] if value else words[1]
    if isinstance(words, str):
        return words.format(_special(key, value))
    return f"{key} {plainly(value)}"


def _special(key: str, value: Any) -> str:
    """Return a value in the words of its field, plainly where it is of another kind."""
    try:
        if key == "start_fraction":
            return f"{value[0]:.0%} and {value[1]:.0%}"
        if key == "cost":
            return _costs(value)
        if key == "verification" and value:
            return _proof(value)
        if key == "warnings":
            return ", ".join(each["text"] for each in value)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # of another kind than this version writes
    return plainly(value)


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
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _costs(cost: Mapping[str, Any]) -> str:
    roles = [f"{each} {counted(cost[each], 'token')}" for each in _ROLES if each in cost]
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
    return ", ".join(parts)


def _proof(of: Mapping[str, Any]) -> str:
    return (
        f"{of['exact']} of {counted(of['probes'], 'probe')} exact, the largest error "
        f"{counted(of['largest_error_tokens'], 'token')}, the longest "
        f"{counted(of['longest_tokens'], 'token')}, up to {counted(of['most_messages'], 'message')}"
    )


# --- the questions -------------------------------------------------------------------------------


def disclosure_section(run: Run, curve: Curve) -> Section:
    """Return the five questions with their answers, a row each."""
    return Section(
        "Disclosure",
        facts=[
            ("What is latency here?", _latency(curve)),
            ("What is a token here?", _tokens(run)),
            ("Per what?", _unit(run)),
            *(("Under which load?", part) for part in _load(run)),
            ("Who measured, when, on what?", _origin(run)),
        ],
    )


def _latency(curve: Curve) -> str:
    return (
        "P90 over responses of the mean gap between a response's tokens, first token excluded, "
        "linear interpolation between ranks. Interactivity is its inverse. Token ITL, over all "
        f"tokens, is shown beside it and never mixed with it. {uncertainty([curve])}"
    )


def _tokens(run: Run) -> str:
    hits = [
        f"{point.name}: {share(point.summary.cache_hit)} / "
        f"{share(point.summary.cache_hit_theoretical)}"
        for point in run.points
        if point.summary is not None
    ]
    said = (
        f"Cache hit by agents, measured / with an unlimited cache, %: {'; '.join(hits)}."
        if hits
        else "No cache hit: no level was measured."
    )
    return (
        "Input and output tokens of responses that ended well, as the server counts them, reused "
        "input included. The tables give the same without reused input, and output alone. " + said
    )


def _unit(run: Run) -> str:
    if run.gpus is None:
        return "Per system: no GPU count was given (--gpus). No price, no power was given."
    return f"Per GPU, of {run.gpus}. No price and no power enter this page."


_LIVE_HISTORY = (
    "Live output was to be fed back: later prompts of a session said what the server had answered, "
    "where it had (--live-history)."
)


def _load(run: Run) -> list[str]:
    corpus, scenario = part_of(run.sweep, "corpus"), part_of(run.sweep, "scenario")
    prompts = part_of(run.sweep, "calibration")
    windows = sorted({point.facts.rules.window_s for point in run.points})
    counts = [f"{each.name}: {each.sessions_played}" for each in run.points]
    to_play = corpus.get("played")
    return [
        f"Corpus {corpus.get('name', 'unknown')} (fingerprint {corpus.get('fingerprint', '?')}), "
        f"of {corpus.get('sessions', '?')} sessions "
        f"{len(to_play) if isinstance(to_play, list) else '?'} were to be "
        f"played; agents: {', '.join(point.name for point in run.points)}. "
        f"Sessions played in the window, at least in part, by agents: {'; '.join(counts)}.",
        f"Scenario {scenario.get('name', 'unknown')} (fingerprint "
        f"{scenario.get('fingerprint', '?')}): window "
        f"{', '.join(f'{length:g}' for length in windows)} s. "
        f"Rules: {in_words(scenario, RULES)}.",
        f"Prompts, as calibrated: {in_words(prompts, PROMPTS) if prompts else 'not recorded'}.",
        *([_LIVE_HISTORY] if run.sweep.get("live_history") else []),
        f"Server, as it told: {in_words(part_of(run.sweep, 'target'), SERVER)}.",
    ]


def _origin(run: Run) -> str:
    command = run.sweep.get("command")
    told = " ".join(map(str, command)) if isinstance(command, list) else "(not recorded)"
    client = {**part_of(run.sweep, "host"), **part_of(run.sweep, "versions")}
    return (
        f"Begun {started(run, '%Y-%m-%d %H:%M:%S UTC') or 'unknown'}. "
        f"Client: {in_words(client, CLIENT)}. Command: agentx-replay {told}. "
        "Who ran it is for whoever shows this page to say."
    )


def title_of(run: Run) -> str:
    """Return what was measured: the model, else the kind of server, and on how many GPUs."""
    target = part_of(run.sweep, "target")
    simulated = target.get("kind") == BUILT_IN
    what = str((None if simulated else target.get("model")) or target.get("kind") or "a server")
    return what if run.gpus is None else f"{what} on {counted(run.gpus, 'GPU')}"


def urls_told(run: Run) -> list[str]:
    """Return where the server is, or the servers; none without a wire."""
    url = part_of(run.sweep, "target").get("url") or []
    return [str(each) for each in url] if isinstance(url, list) else [str(url)]


def heading(run: Run) -> str:
    """Return in one line what was measured, where, under which rules, with which sessions."""
    title, played = title_of(run), part_of(run.sweep, "corpus").get("played")
    parts = [
        str(part_of(run.sweep, "scenario").get("name", "unknown scenario")),
        " at ".join([title, *([] if title.startswith(BUILT_IN) else urls_told(run)[:1])]),
        *([counted(len(played), "session")] if isinstance(played, list) else []),
        *(["no GPU count (--gpus)"] if run.gpus is None else []),
    ]
    return " · ".join(parts)


def started(run: Run, form: str) -> str | None:
    """Return when the run was begun, None where ``sweep.json`` does not say."""
    try:
        return time.strftime(form, time.gmtime(run.sweep["started_unix_s"]))
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def part_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, Mapping) else {}
