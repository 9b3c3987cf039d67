"""The formats that can be imported, how a file shows which it has, and those that cannot be."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.errors import UsageError
from agentx_replay.traces.importing.block_rows import read_bailian, read_mooncake
from agentx_replay.traces.importing.claude_code import read_claude_code
from agentx_replay.traces.importing.codex import read_codex
from agentx_replay.traces.importing.dynamo import read_dynamo
from agentx_replay.traces.importing.gateways import read_copilot_azure, read_litellm
from agentx_replay.traces.importing.lines import LOG_SUFFIXES, first_objects, record, records, text
from agentx_replay.traces.importing.otel import read_otel
from agentx_replay.traces.importing.pi import read_pi
from agentx_replay.traces.importing.record import ImportedSession, Ledger
from agentx_replay.traces.importing.tracelab import read_tracelab

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Format:
    """One format. ``shows`` says whether an object of a file is of it; ``absent`` what such a log
    cannot hold. ``folders`` are where its tool keeps logs; ``tried`` is False if no real file of
    it was ever read.
    """

    name: str
    read: Callable[[Sequence[Path], Ledger], Iterator[ImportedSession]]
    shows: Callable[[dict[str, Any]], bool]
    folders: Callable[[], list[Path]] = list
    absent: str = ""
    tried: bool = True


def _claude_folders() -> list[Path]:
    if configured := os.environ.get("CLAUDE_CONFIG_DIR"):
        return [Path(configured) / "projects"]
    return [Path.home() / ".claude" / "projects", Path.home() / ".config" / "claude" / "projects"]


def _codex_folders() -> list[Path]:
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    return [home / "sessions", home / "archived_sessions"]


def _has(*keys: str) -> Callable[[dict[str, Any]], bool]:
    wanted = set(keys)
    return lambda line: wanted <= line.keys()


def _is_copilot(line: dict[str, Any]) -> bool:
    return any("llm_calls" in turn for turn in records(line, "turns"))


def _is_dynamo(line: dict[str, Any]) -> bool:
    schema = text(record(line, "event"), "schema")
    return schema.startswith("dynamo.") and ".trace." in schema


def _is_codex(line: dict[str, Any]) -> bool:
    return line.get("type") == "session_meta" and "payload" in line


def _is_claude_code(line: dict[str, Any]) -> bool:
    return "sessionId" in line and ("uuid" in line or "type" in line)


def _is_pi(line: dict[str, Any]) -> bool:
    return line.get("type") == "session" and "provider" in line


_BLOCK_ROW = ("timestamp", "input_length", "output_length", "hash_ids")
_NOT_REPORTED = "failed and retried requests"

FORMATS = (
    Format(
        "claude-code",
        read_claude_code,
        _is_claude_code,
        folders=_claude_folders,
        absent="title and topic calls, token counting, web-fetch helpers, hooks' own calls, failed"
        " and retried requests",
    ),
    Format("codex", read_codex, _is_codex, folders=_codex_folders, absent=_NOT_REPORTED),
    Format("bailian", read_bailian, _has("chat_id", *_BLOCK_ROW), tried=False),
    Format("mooncake", read_mooncake, _has("input_length", "output_length", "hash_ids")),
    Format(
        "tracelab",
        read_tracelab,
        _has("provider", "round_index", "prefix_tokens"),
        absent="which session spawned which",
    ),
    Format("pi", read_pi, _is_pi, absent=_NOT_REPORTED),
    Format("copilot-azure", read_copilot_azure, _is_copilot, tried=False),
    Format("dynamo", read_dynamo, _is_dynamo, tried=False),
    Format(
        "otel",
        read_otel,
        lambda line: "resourceSpans" in line or "resourceLogs" in line,
        tried=False,
        absent="what an agent's turns are, so prompts that grow are taken to go on",
    ),
    Format(
        "litellm",
        read_litellm,
        _has("call_type", "startTime"),
        tried=False,
        absent="subagents, what an agent's turns are, and what did not pass the gateway",
    ),
)

_RECORD = "export it from a gateway that logs usage, or import the agent's own log"
REFUSED = {
    "copilot-cli": ("it keeps sums per model and no requests", _RECORD),
    "openrouter": ("it has neither sessions nor what a cache read", _RECORD),
    "azure-llm": ("it has arrivals and lengths of single requests and no sessions", _RECORD),
    "burstgpt": ("it has arrivals and lengths of chats, not of agents", _RECORD),
    "aider": ("it has rounded counts in its text and no shared prefixes", _RECORD),
    "swe-agent": ("its trajectories have no times", _RECORD),
    "openhands": ("no importer for it has read a real file yet", _RECORD),
    "langfuse": ("no importer for it has read a real file yet", "export the spans as OTLP (otel)"),
    "opencode": ("no importer for it has read a real file yet", "point it at a gateway (litellm)"),
    "gemini": (
        "no importer for it has read a real file yet",
        "export its telemetry as OTLP (otel)",
    ),
}
"""Formats that are not imported: why, and what to do instead."""

BY_NAME = {each.name: each for each in FORMATS}


def named(name: str) -> Format:
    """Return a format by name. Raises ``UsageError`` for one that is refused or not known."""
    if name in REFUSED:
        why, instead = REFUSED[name]
        raise UsageError("import-format-refused", f"{name} cannot be imported: {why}", instead)
    if name not in BY_NAME:
        raise UsageError(
            "import-format-unknown",
            f"there is no format and no file {name!r}",
            f"use one of {_listed()}",
        )
    return BY_NAME[name]


def split_format(words: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the format that a command's first word names, ``auto`` if it is a path, and paths.

    A first word with a slash or a dot is a path. Raises ``UsageError`` for one that is neither.
    """
    paths = [Path(word) for word in words]
    if not words or paths[0].exists() or os.sep in words[0] or "." in words[0]:
        return AUTO, paths
    return (AUTO if words[0] == AUTO else named(words[0]).name), paths[1:]


def log_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files themselves and those below directories that could be logs, by name.

    Raises ``UsageError`` for a path that does not exist.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(
                "import-path-missing", f"{path} does not exist", "name a log or a directory of logs"
            )
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        found |= dict.fromkeys(
            file for file in below if file.is_file() and (file == path or _is_log_name(file.name))
        )
    return list(found)


def _is_log_name(name: str) -> bool:
    return name.endswith(LOG_SUFFIXES) and name != "manifest.json"


def recognised(
    files: Sequence[Path], given: Sequence[Path], ledger: Ledger
) -> dict[str, list[Path]]:
    """Return the files of each format, by its name; others below a directory are counted.

    Raises ``UsageError`` if one of the others is among the ``given`` paths.
    """
    by_format: dict[str, list[Path]] = {}
    for file in files:
        try:
            by_format.setdefault(_format_of(file).name, []).append(file)
        except UsageError as error:
            if file in given:
                raise
            ledger.leave_out("file that is no log of a known format", error.what)
    return by_format


def _format_of(file: Path) -> Format:
    """Return a file's format. Raises ``UsageError`` for one that is not known or not imported."""
    for line in first_objects(file):
        if {"requests", "block_size"} <= line.keys():
            raise UsageError(
                "import-already-trace",
                f"{file} is a trace already",
                "give it to --traces as it is",
            )
        if {"traceId", "usageDetails"} <= line.keys():
            named("langfuse")
        for each in FORMATS:
            if each.shows(line):
                return each
    raise UsageError(
        "import-format-unrecognised",
        f"{file} is in none of the formats {_listed()}",
        "name the format, or see docs/importing.md",
    )


def _listed() -> str:
    return ", ".join(BY_NAME)
