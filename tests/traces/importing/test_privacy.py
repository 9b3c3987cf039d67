"""Nothing of a log leaves it but numbers: lengths, times, and which blocks repeat.

Out of scope: a core dump and what the machine's own swap holds.
"""

import base64
import gzip
import random
import re
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from claude_logs import answer, boundary, line, text, told, tool_result, tool_use, usage, write_log
from codex_logs import PARENT, ended, meta, person, spawned
from command_line import finished
from hypothesis import given
from hypothesis import strategies as st
from trace_rows import ROW_LOGS

from agentx_replay.traces.importing.importing import Import, Wanted
from agentx_replay.traces.importing.names import is_public_model, public_agent_kind
from agentx_replay.traces.importing.record import ImportedSession, Ledger
from agentx_replay.traces.importing.writer import Writer

STRUCTURE = frozenset(
    [
        "assistant",
        "user",
        "system",
        "progress",
        "attachment",
        "compact_boundary",
        "agent_progress",
        "tool_use",
        "tool_result",
        "text",
        "Task",
        "end_turn",
        "session_meta",
        "turn_context",
        "event_msg",
        "response_item",
        "token_count",
        "user_message",
        "function_call",
        "function_call_output",
        "wait",
        "message",
        "session",
        "acompletion",
        "success",
        "Success",
        "request_end",
        "dynamo.request.trace.v1",
        "chat",
        "invoke_agent",
        "claude",
        "codex",
        "gen_ai.operation.name",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "t",
    ]
)
"""What the formats themselves are made of; all other strings are a person's."""


class Canaries:
    """Unique random words in place of a person's strings, the same for the same string."""

    def __init__(self) -> None:
        self._random = random.Random(19)
        self.words: dict[str, str] = {}

    def of(self, text: str) -> str:
        letters = self._random.choices(string.ascii_lowercase, k=24)
        return self.words.setdefault(text, "".join(letters))

    def sung(self, value: Any) -> Any:
        """Return a value with canaries for its strings, and one more key in every object."""
        if isinstance(value, str):
            keeps = value in STRUCTURE or value.isdecimal() or value[:4] == "2026"
            return value if keeps or not value else self.of(value)
        if isinstance(value, Mapping):
            extra = {self.of(f"key {len(self.words)}"): self.of(f"leaf {len(self.words)}")}
            return {key: self.sung(each) for key, each in value.items()} | extra
        if isinstance(value, list | tuple):
            return [self.sung(each) for each in value]
        return value

    def heard_in(self, output: bytes) -> set[bytes]:
        """Return what of the words is in an output: six letters of one, plain or reversed, or
        sixteen characters of it in hexadecimal or base64.
        """
        words = [word.encode() for word in self.words.values()]
        plain = _windows([*words, *(word[::-1] for word in words)], 6)
        encoded = _windows(
            [*(word.hex().encode() for word in words), *map(base64.b64encode, words)], 16
        )
        runs = re.findall(rb"[A-Za-z0-9+/=]{6,}", output)
        return (_windows(runs, 6) & plain) | (_windows(runs, 16) & encoded)


def _windows(texts: Iterable[bytes], width: int) -> set[bytes]:
    return {text[at : at + width] for text in texts for at in range(len(text) - width + 1)}


def test_a_canary_that_sings_is_heard() -> None:
    voice = Canaries()
    word = voice.of("secret").encode()
    for sung in (word[3:9], word[::-1], word.hex().encode(), base64.b64encode(word)):
        assert voice.heard_in(b'{"a": "' + sung + b'"}')


def claude_log(folder: Path, voice: Canaries) -> Path:
    lines = [
        told(0),
        answer(4, "m1", usage(0, 6_400), text(30), tool_use("c1", command="secret command")),
        tool_result(7, "c1"),
        answer(
            12, "m2", usage(6_400, 600), tool_use("c2", "Task", subagent_type="mine", prompt="p")
        ),
        tool_result(40, "c2", agentId="a", usage=usage(9_000, 497, 400)),
        line("system", 41, subtype="turn_duration", content="private"),
        answer(46, "m3", usage(7_000, 1_000), model="arn:aws:bedrock:us-east-1:123456789012:mine"),
        boundary(50),
        told(51, cwd="/home/someone", gitBranch="branch"),
        answer(53, "m4", usage(0, 3_000), stop_reason=None),
    ]
    session = folder / voice.of("directory") / f"{voice.of('session')}.jsonl"
    inner = session.with_suffix("") / "subagents" / "agent-a.jsonl"
    write_log(inner, *voice.sung([told(13), answer(20, "a1", usage(0, 9_000))]))
    inner.rename(inner.with_name(f"agent-{voice.of('a')}.jsonl"))
    return write_log(session, *voice.sung(lines)).parent


def codex_log(folder: Path, voice: Canaries) -> Path:
    child = [spawned(12, "c", "a", "mine"), person(13), ended(30, (700, 0, 9))]
    for name, lines in (("a", [meta(0, "a"), *PARENT]), ("c", child)):
        write_log(folder / voice.of("day") / f"rollout-{voice.of(name)}.jsonl", *voice.sung(lines))
    return folder / voice.of("day")


@pytest.mark.parametrize("name", ["claude-code", "codex", *ROW_LOGS])
def test_no_canary_is_heard(tmp_path: Path, name: str) -> None:
    voice = Canaries()
    if name == "claude-code":
        logs = claude_log(tmp_path / "logs", voice)
    elif name == "codex":
        logs = codex_log(tmp_path / "logs", voice)
    else:
        logs = write_log(tmp_path / f"{voice.of('rows')}.jsonl", *voice.sung(ROW_LOGS[name]))
    out = tmp_path / "out" / "mine.jsonl.gz"
    out.parent.mkdir()
    done = finished("traces", "import", name, str(logs), "--out", str(out), "--min-requests", "1")
    assert done.returncode == 0, done.stderr
    assert len(voice.words) > 6
    heard = gzip.decompress(out.read_bytes()) + done.stdout.encode() + done.stderr.encode()
    heard += b"".join(each.name.encode() for each in out.parent.iterdir())
    assert not voice.heard_in(heard)


KEYS = {
    "session": {"id": str, "block_size": int, "hash_id_scope": str, "tool_tokens": int,
                "system_tokens": int, "requests": list},
    "request": {"t": float, "type": str, "model": str, "in": int, "out": int, "api_time": float,
                "think_time": float, "hash_ids": list},
    "subagent": {"t": float, "type": str, "agent_id": str, "subagent_type": str,
                 "duration_ms": int, "status": str, "requests": list},
}  # fmt: skip
"""The closed schema of what is written."""


def assert_closed(kind: str, value: dict[str, Any]) -> None:
    assert value.keys() <= KEYS[kind].keys()
    for key, each in value.items():
        assert each is None or isinstance(
            each, KEYS[kind][key] if each else (int, float, str, list)
        )
    assert value.get("type") == {"session": None, "subagent": "subagent", "request": "s"}[kind]
    assert value.get("status") in (None, "completed", "async_launched")
    assert all(type(each) is int for each in value.get("hash_ids", ()))
    for each in value.get("requests", ()):
        assert_closed("subagent" if each["type"] == "subagent" else "request", each)


def written(logs: Path, salt: bytes = b"salt") -> list[bytes]:
    ledger = Ledger()
    files = {"claude-code": sorted(logs.rglob("*.jsonl"))}
    return list(Import(files, Wanted(), ledger, salt).lines())


def test_what_is_written_has_a_closed_schema(tmp_path: Path) -> None:
    (written_line,) = written(claude_log(tmp_path, Canaries()))
    session = orjson.loads(written_line)
    assert_closed("session", session)
    strings = {each["model"] for each in session["requests"] if "model" in each}
    assert strings == {"model-1", "model-2"}
    agents = [each for each in session["requests"] if each["type"] == "subagent"]
    assert [(each["agent_id"], each["subagent_type"]) for each in agents] == [("agent-1", "agent")]
    assert min(each["t"] for each in session["requests"]) == 0


def test_another_salt_changes_ids_of_sessions_and_nothing_else(tmp_path: Path) -> None:
    logs = claude_log(tmp_path, Canaries())
    first, second = (orjson.loads(written(logs, salt)[0]) for salt in (b"a", b"b"))
    assert first.pop("id") != second.pop("id")
    assert first == second


@given(
    st.permutations(string.ascii_lowercase), st.lists(st.integers(0, 400), min_size=3, max_size=3)
)
def test_texts_of_equal_lengths_give_the_same_trace(
    tmp_path_factory: pytest.TempPathFactory, letters: list[str], lengths: tuple[int, ...]
) -> None:
    def log(folder: Path, alphabet: dict[int, int]) -> Path:
        lines = [told(0, cwd="somewhere".translate(alphabet))]
        for at, length in enumerate(lengths):
            said = [text(length), tool_use("c", command=("xyz" * length).translate(alphabet))]
            said[0]["text"] = said[0]["text"].translate(alphabet)
            lines.append(answer(10 * at + 3, f"m{at}", usage(0, 900, 1), *said, stop_reason=None))
            lines.append(told(10 * at + 5))
        return write_log(folder / "s.jsonl", *lines).parent

    plain, other = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("other")
    mapping = str.maketrans(string.ascii_lowercase, "".join(letters))
    assert written(log(plain, {})) == written(log(other, mapping))


def test_a_kill_at_any_session_leaves_no_half_file_and_nothing_to_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies on disk as each session comes to be written is what a kill would leave then."""
    voice = Canaries()
    logs = claude_log(tmp_path / "logs", voice)
    for at in range(3):
        lines = [told(0), *(answer(1 + n, f"{at} {n}", usage(0, 10**6)) for n in range(3))]
        write_log(logs / f"{at}.jsonl", *voice.sung(lines))
    out = tmp_path / "out" / "mine.jsonl"
    out.parent.mkdir()
    left: list[tuple[str, bytes]] = []
    line = Writer.line

    def watched(writer: Writer, session: ImportedSession) -> bytes | None:
        left.extend((each.name, each.read_bytes()) for each in out.parent.iterdir())
        return line(writer, session)

    monkeypatch.setattr(Writer, "line", watched)
    assert finished("traces", "import", str(logs), "--out", str(out)).returncode == 0
    assert {name for name, _ in left} == {".mine.jsonl.tmp"}
    assert max(len(raw) for _, raw in left) > 100_000
    assert not voice.heard_in(b"".join(raw for _, raw in left))


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("claude-opus-4-6", True),
        ("claude-haiku-4-5-20251001", True),
        ("gpt-5.3-codex", True),
        ("gpt-oss-120b", True),
        ("deepseek-v3.2", True),
        ("qwen3-coder-30b-a3b-instruct", True),
        ("kimi-k2-thinking", True),
        ("o4-mini", True),
        ("gpt-4o-mini", True),
        ("ft:gpt-4o:acme::8x", False),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile", False),
        ("acme-claude", False),
        ("claude-acme", False),
        ("gpt-123456789012", False),
        ("my deployment", False),
        ("", False),
    ],
)
def test_only_public_names_of_models_are_kept(name: str, public: bool) -> None:
    assert is_public_model(name) is public


def test_only_kinds_of_agents_that_tools_come_with_are_kept() -> None:
    assert [public_agent_kind(each) for each in ("Explore", "acme-reviewer", None)] == [
        "Explore", "agent", "agent",
    ]  # fmt: skip
