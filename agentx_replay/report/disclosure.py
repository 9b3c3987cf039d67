"""What a run's record says of it: what was measured, under which load."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentx_replay.analysis.run import Run
from agentx_replay.report.tables import Section
from agentx_replay.text_format import counted

BUILT_IN = "built-in simulator"
"""The kind of a target that a sweep without ``--url`` starts by itself."""
_LIVE_HISTORY = (
    "live output was to be fed back: later prompts of a session said what the server had answered, "
    "where it had (--live-history)"
)


def disclosure_section(run: Run) -> Section:
    """Return what load the numbers are of, and on which client they came about."""
    sweep = run.sweep
    corpus, scenario = part_of(sweep, "corpus"), part_of(sweep, "scenario")
    played = "; ".join(f"{each.name}: {each.sessions_played}" for each in run.points)
    command = sweep.get("command")
    told = " ".join(map(str, command)) if isinstance(command, list) else "not recorded"
    rules = {key: scenario[key] for key in scenario if key not in ("name", "fingerprint")}
    return Section(
        "Disclosure",
        facts=[
            ("Corpus", in_words({**corpus, "played": _length(corpus.get("played"))})),
            ("Sessions played in the window, at least in part", played),
            ("Scenario", f"{scenario.get('name', 'unknown')} ({scenario.get('fingerprint', '?')})"),
            ("Rules", in_words(rules)),
            ("Prompts, as calibrated", in_words(part_of(sweep, "calibration"))),
            *([("Prompts", _LIVE_HISTORY)] if sweep.get("live_history") else []),
            ("Server, as it told", in_words(part_of(sweep, "target"))),
            *_own_words(part_of(run.sweep, "settings")),
            ("Begun", started(run, "%Y-%m-%d %H:%M:%S UTC") or "unknown"),
            ("Client", in_words({**part_of(sweep, "host"), **part_of(sweep, "versions")})),
            ("Command", f"agentx-replay {told}"),
        ],
    )


def _own_words(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what whoever ran it noted (``--note``, ``--tag``)."""
    tags = settings.get("tag")
    told = [settings.get("note"), *(tags if isinstance(tags, list) else [])]
    texts = [each for each in told if isinstance(each, str)]
    return [("Note", ", ".join(texts))] if texts else []


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def in_words(document: Mapping[str, Any]) -> str:
    """Return the fields of a record by their names: ``window 20 s; no comparable``."""
    return "; ".join(f"{_name(key)} {_value(key, each)}" for key, each in document.items()) or "-"


def _name(key: str) -> str:
    return key.removesuffix("_s").replace("_", " ")


def _value(key: str, value: Any) -> str:
    seconds = key.endswith("_s") and isinstance(value, int | float)
    return f"{plainly(value)} s" if seconds else plainly(value)


def plainly(value: Any) -> str:
    """Return a JSON value in words: ``name value, name value``; yes, no, none."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_name(key)} {_value(key, each)}" for key, each in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(plainly, value)) or "none"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


_OF_ONE_RUN = (
    "command", "started_unix_s", "plans", "resumed", "salt", "source", "calibration", "system",
    "probes", "bracket", "search",
)  # fmt: skip
"""What two runs of one experiment differ in, what other fields say, too, and how levels were found.
"""


def differing_facts(sweeps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return in which facts on record runs differ: the name and what each says, ``a / b``."""
    told = [dict(_leaves(each)) for each in sweeps]
    names = dict.fromkeys(name for each in told for name in each)
    said = {name: [each.get(name, "not recorded") for each in told] for name in names}
    return [(name, " / ".join(values)) for name, values in said.items() if len(set(values)) > 1]


def _leaves(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in document.items():
        name = f"{path}{_name(key)}"
        if isinstance(value, Mapping) and key not in _OF_ONE_RUN:
            yield from _leaves(value, f"{name}, ")
        elif key not in _OF_ONE_RUN:
            yield name, _value(key, value)


# --- what was measured ---------------------------------------------------------------------------


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
