"""Synthetic sessions in the April dialect of the Weka format, drawn from public statistics.

Pure but for ``write_corpus``: random numbers in, JSON-ready sessions out, the same on any machine
for the same seed. They have what recordings have: growing prompts, edits, rebuilds, compactions,
subagents in parallel and in the background, requests without output or duration. The statistics
are in ``fits.py``; how a trace is read is ``weka.py``'s.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson

from agentx_replay.traces import fits
from agentx_replay.traces.dealing import balanced_order, input_and_requests
from agentx_replay.traces.files import write_sessions
from agentx_replay.traces.weka import read_session

BLOCK_TOKENS = 64
BUNDLED_SEED = 10
BUNDLED_FILE = "bundled.jsonl.gz"

_MISSING_DURATION = 0.03
_ZERO_OUTPUT = 0.003
_BACKGROUND = 0.25
_MOST_SIBLINGS = 3
_MOST_TAIL_BLOCKS = 8
_LEAST_GAP_S = 0.2

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the sessions of a kind may be.

    ``peak_tokens``: no request has more input plus output; it must exceed the most output.
    ``scale`` multiplies all drawn token counts and ``gap_scale`` all drawn gaps, before
    ``requests`` (of the main conversation), ``output_tokens`` and ``gap_s`` bound them (least,
    most). ``subagents`` is the probability that a session has any, ``most_subagents`` how many at
    most.
    """

    peak_tokens: int
    requests: tuple[int, int]
    output_tokens: tuple[int, int]
    gap_s: tuple[float, float]
    subagents: float
    most_subagents: int
    scale: float = 1.0
    gap_scale: float = 1.0


LARGE = Limits(
    peak_tokens=200_000,
    requests=(12, 90),
    output_tokens=(1, 4_000),
    gap_s=(_LEAST_GAP_S, 120.0),
    subagents=0.4,
    most_subagents=4,
)
"""Of the recorded shape, to 200k tokens of context; no pause over two minutes."""

MEDIUM = Limits(
    peak_tokens=31_000,
    scale=0.25,
    gap_scale=0.5,
    requests=(5, 40),
    output_tokens=(1, 1_500),
    gap_s=(_LEAST_GAP_S, 30.0),
    subagents=0.3,
    most_subagents=3,
)
"""For servers with 32k tokens of context."""

SMALL = Limits(
    peak_tokens=4_000,
    scale=0.1,
    gap_scale=0.1,
    requests=(6, 14),
    output_tokens=(10, 80),
    gap_s=(0.5, 5.0),
    subagents=0.35,
    most_subagents=2,
)
"""For the smallest servers, with 4,096 tokens of context."""

_BUNDLED_LARGE = replace(LARGE, output_tokens=MEDIUM.output_tokens)
"""An answer of 4,000 tokens at 20 tok/s would take 200 s, and ``quick`` cuts what ends later than
10 s after its window of 20 s: one of a hundred answers cut makes a level invalid.
"""

_BUNDLED = (("small", 6, SMALL), ("medium", 16, MEDIUM), ("large", 14, _BUNDLED_LARGE))


def generate_corpus(seed: int, sessions: int, limits: Limits, name: str = "session") -> list[Json]:
    """Return ``sessions`` sessions named ``name-1`` and so on; each depends on its number alone."""
    return [
        _Author(Random(f"{seed}:{name}:{number}"), limits, _family(seed, number)).session(
            f"{name}-{number}"
        )
        for number in range(1, sessions + 1)
    ]


def bundled_corpus() -> list[Json]:
    """Return the sessions that are shipped in ``traces/``: the first of them are like all, so that
    the levels of a sweep, which play the first sessions, differ by load alone.
    """
    sessions = [
        session
        for name, count, limits in _BUNDLED
        for session in generate_corpus(BUNDLED_SEED, count, limits, name)
    ]
    sizes = [
        input_and_requests(read_session(orjson.dumps(session), session["id"]))
        for session in sessions
    ]
    return [sessions[place] for place in balanced_order(sizes)]


def write_corpus(sessions: Iterable[Json], file: Path) -> None:
    """Write the sessions to ``file``, as ``files.write_sessions`` does."""
    write_sessions(map(orjson.dumps, sessions), file)


def _family(seed: int, number: int) -> tuple[int, int]:
    """Return the (tool, system) tokens of the prompt family that a session belongs to."""
    rng = Random(f"{seed}:family:{number % fits.PROMPT_FAMILIES}")
    return round(fits.draw(fits.TOOL_TOKENS, rng)), round(fits.draw(fits.SYSTEM_TOKENS, rng))


class _Prompt(NamedTuple):
    """A prompt: its length, the ids of its whole blocks, and how much of it was sent before."""

    tokens: int
    ids: list[int]
    known_tokens: int


class _Author:
    """Writes one session; holds its random numbers and the ids it has given to blocks."""

    def __init__(self, rng: Random, limits: Limits, family: tuple[int, int]) -> None:
        self._rng = rng
        self._limits = limits
        self._unused_ids = count(1)
        self._unused_agents = count(1)
        self._most_input_tokens = limits.peak_tokens - limits.output_tokens[1]
        shrunk = min(limits.scale, limits.peak_tokens / 8 / sum(family))
        self._tool_tokens, self._system_tokens = (round(tokens * shrunk) for tokens in family)
        self._head = self._extended([], self._tool_tokens + self._system_tokens)
        self._subagent_head = self._extended([], self._head.tokens // 2)

    def session(self, name: str) -> Json:
        turns = _bounded(
            round(fits.draw(fits.REQUESTS_PER_SESSION, self._rng)), self._limits.requests
        )
        first = self._extended(self._head.ids, self._first_tokens())
        items, _ = self._conversation(
            turns, first, self._head, "agent-large", self._branches(turns)
        )
        return {
            "id": name,
            "models": ["agent-large", "agent-small"],
            "block_size": BLOCK_TOKENS,
            "hash_id_scope": "local",
            "tool_tokens": self._tool_tokens,
            "system_tokens": self._system_tokens,
            "requests": sorted(items, key=lambda item: item["t"]),
        }

    def _branches(self, turns: int) -> dict[int, int]:
        """Draw how many subagents are spawned after which turn."""
        branches: dict[int, int] = {}
        if self._rng.random() >= self._limits.subagents:
            return branches
        left = self._rng.randint(1, self._limits.most_subagents)
        while left:
            siblings = self._rng.randint(1, min(left, _MOST_SIBLINGS))
            turn = self._rng.randrange(turns)
            branches[turn] = branches.get(turn, 0) + siblings
            left -= siblings
        return branches

    def _conversation(
        self, turns: int, prompt: _Prompt, head: _Prompt, model: str, branches: dict[int, int]
    ) -> tuple[list[Json], float]:
        """Return an agent's requests from time 0, its subagents' markers, and when it ends."""
        items: list[Json] = []
        start_s = end_s = think_s = 0.0
        is_tool = False
        for turn in range(turns):
            request, duration_s = self._request(prompt, is_tool)
            items.append({"t": start_s, "model": model, "think_time": think_s, **request})
            end_s = round(start_s + duration_s, 3)
            markers, free_s = self._subagents(branches.get(turn, 0), end_s)
            items += markers
            is_tool = self._rng.random() < (
                fits.TOOL_AFTER_TOOL if is_tool else fits.TOOL_AFTER_USER
            )
            start_s = round(max(end_s, free_s) + self._gap_s(is_tool), 3)
            think_s = round(start_s - end_s, 3)
            prompt = self._next_prompt(prompt, head)
        return items, end_s

    def _request(self, prompt: _Prompt, is_tool: bool) -> tuple[Json, float]:
        drawn = self._tokens(fits.OUTPUT_TOKENS)
        zero = self._rng.random() < _ZERO_OUTPUT
        output_tokens = 0 if zero else _bounded(drawn, self._limits.output_tokens)
        new_tokens = prompt.tokens - prompt.known_tokens
        duration_s = round(fits.duration_s(prompt.tokens, new_tokens, output_tokens), 3)
        request = {
            "type": "s",
            "in": prompt.tokens,
            "out": output_tokens,
            "hash_ids": prompt.ids,
            "input_types": ["tool_result" if is_tool else "text"],
        }
        if self._rng.random() >= _MISSING_DURATION:
            request["api_time"] = duration_s
        return request, duration_s

    def _subagents(self, siblings: int, spawn_s: float) -> tuple[list[Json], float]:
        """Return markers of subagents spawned together, and when the main agent may go on."""
        if not siblings:
            return [], spawn_s
        background = self._rng.random() < _BACKGROUND
        inside = [self._subagent_requests() for _ in range(siblings)]
        markers = [
            self._marker(requests, spawn_s, None if background else duration_s)
            for requests, duration_s in inside
        ]
        longest_s = 0.0 if background else max(duration_s for _, duration_s in inside)
        return markers, spawn_s + longest_s

    def _subagent_requests(self) -> tuple[list[Json], float]:
        turns = _bounded(round(fits.draw(fits.SUBAGENT_REQUESTS, self._rng)), (1, 30))
        tokens = self._subagent_head.tokens + self._tokens(fits.FIRST_USER_TOKENS)
        first = self._extended(self._subagent_head.ids, self._fitting(tokens))
        return self._conversation(turns, first, self._subagent_head, "agent-small", {})

    def _marker(self, requests: list[Json], spawn_s: float, duration_s: float | None) -> Json:
        """Return a marker: at the result of a subagent that is waited for, else at its launch."""
        waited = duration_s is not None
        return {
            "t": round(spawn_s + (duration_s or 0.0), 3),
            "type": "subagent",
            "agent_id": f"agent-{next(self._unused_agents)}",
            "subagent_type": "Explore",
            "duration_ms": round(1000 * duration_s) if duration_s is not None else None,
            "total_tokens": sum(r["in"] + r["out"] for r in requests) if waited else None,
            "tool_use_count": len(requests) - 1 if waited else None,
            "status": "completed" if waited else "async_launched",
            "requests": requests,
            "models": ["agent-small"],
            "tool_tokens": 0,
            "system_tokens": self._subagent_head.tokens,
        }

    def _next_prompt(self, prompt: _Prompt, head: _Prompt) -> _Prompt:
        tokens = prompt.tokens + max(1, self._tokens(fits.GROWTH_TOKENS))
        if self._is_compacted(prompt, tokens):
            return self._extended(head.ids, self._fitting(head.tokens + self._compacted_tokens()))
        blocks = len(prompt.ids)
        match fits.one_of(self._rng, (fits.TAIL_EDIT, fits.MID_EDIT, fits.REBUILD)):
            case 0:
                kept = max(0, blocks - self._rng.randint(1, _MOST_TAIL_BLOCKS))
            case 1:
                kept = int(blocks * self._rng.uniform(0.5, 0.95))
            case 2:
                return self._extended(head.ids[: len(head.ids) // 2], prompt.tokens)
            case _:
                kept = blocks
        return self._extended(prompt.ids[:kept], tokens)

    def _is_compacted(self, prompt: _Prompt, grown_tokens: int) -> bool:
        if grown_tokens > self._most_input_tokens:
            return True
        large = prompt.tokens >= fits.COMPACTION_FROM_TOKENS
        return large and self._rng.random() < fits.COMPACTION

    def _compacted_tokens(self) -> int:
        """Return what a compaction leaves besides the head: a summary and recent turns."""
        return min(fits.COMPACTED_TOKENS - self._head.tokens, self._most_input_tokens // 4)

    def _extended(self, kept: list[int], tokens: int) -> _Prompt:
        """Return a prompt of ``tokens`` that begins with ``kept`` blocks, the rest new."""
        blocks = tokens // BLOCK_TOKENS
        known = min(len(kept), blocks)
        ids = kept[:blocks] + list(islice(self._unused_ids, blocks - known))
        return _Prompt(tokens, ids, known * BLOCK_TOKENS)

    def _first_tokens(self) -> int:
        if self._rng.random() < fits.FRESH_START:
            return self._fitting(self._head.tokens + self._tokens(fits.FIRST_USER_TOKENS))
        resumed = self._tokens(fits.RESUMED_TOKENS)
        return self._fitting(max(self._head.tokens + BLOCK_TOKENS, resumed))

    def _fitting(self, tokens: int) -> int:
        """Return a first prompt's tokens, leaving the conversation room to grow."""
        return max(1, min(tokens, self._most_input_tokens // 2))

    def _tokens(self, fit: fits.Fit) -> int:
        return round(fits.draw(fit, self._rng) * self._limits.scale)

    def _gap_s(self, is_tool: bool) -> float:
        drawn = fits.draw(fits.TOOL_GAP_S if is_tool else fits.USER_GAP_S, self._rng)
        least, most = self._limits.gap_s
        return min(max(drawn * self._limits.gap_scale, least), most)


def _bounded(value: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    return min(max(value, least), most)
