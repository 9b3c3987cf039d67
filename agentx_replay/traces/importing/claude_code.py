"""Claude Code's own logs: ``projects/<directory>/<session>.jsonl`` and the agents beside it.

Sessions are read one at a time, in order of their first line. What a transcript's lines say is
``claude_transcript.py``'s; here transcripts become one session: which response belongs to which
agent, what it goes on from, and who waits for whom.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentx_replay.traces.importing.claude_transcript import (
    AgentResult,
    Response,
    Spawn,
    Transcript,
    read_transcript,
)
from agentx_replay.traces.importing.lines import first_objects, milliseconds, objects
from agentx_replay.traces.importing.record import (
    ImportedSession,
    ImportedSubagent,
    Ledger,
    Notes,
    Request,
)
from agentx_replay.traces.importing.sharing import (
    Call,
    Conversation,
    by_cache,
    conversation,
)

_COMPACTION = "acompact-"
_EXTENDS_MAIN = (_COMPACTION, "aprompt_suggestion-", "aside_question-")
"""Agents that go on from the main prompt: a compaction's summary, a suggestion, a side question."""

_MIXED = "file with lines of several sessions: read as one session"
_AGENT_FILES = "agent-*.jsonl"


def read_claude_code(files: Sequence[Path], ledger: Ledger) -> Iterator[ImportedSession]:
    """Yield the sessions of Claude Code logs. A response that two files hold is the earlier's."""
    seen: set[str] = set()
    for main, agents in _session_files(files):
        with ledger.refusing():
            if session := _Session(main, agents, seen, ledger).imported():
                yield session


# Which files make a session


def _session_files(files: Sequence[Path]) -> list[tuple[Path, list[Path]]]:
    """Return each session's file with those of its agents, in order of the first instant.

    An agent's file lies in the session's folder or, in older versions, beside the session; one
    whose session is missing is a session of its own.
    """
    given = {file: None for file in files if not _is_agent(file) and "subagents" not in file.parts}
    agents: dict[Path, dict[Path, None]] = {
        main: dict.fromkeys(sorted((_folder(main) / "subagents").rglob(_AGENT_FILES)))
        for main in given
    }
    beside = {
        each for folder in {main.parent for main in given} for each in folder.glob(_AGENT_FILES)
    }
    for file in sorted(beside | {file for file in files if _is_agent(file)}):
        main = _session_of(file)
        agents.setdefault(file if main not in agents else main, {})[file] = None
    named = [(main, [each for each in own if each != main]) for main, own in agents.items()]
    return sorted(named, key=lambda of: (_first_ms(of[0]), of[0]))


def _is_agent(file: Path) -> bool:
    return file.name.startswith("agent-")


def _folder(main: Path) -> Path:
    return main.with_name(main.name.partition(".jsonl")[0])


def _session_of(agent: Path) -> Path:
    """Return the session's file of an agent's: by its folder, else by the id in its lines."""
    for folder in agent.parents:
        if folder.name == "subagents":
            return folder.parent.with_name(f"{folder.parent.name}.jsonl")
    for line in first_objects(agent):
        if isinstance(name := line.get("sessionId"), str):
            return agent.with_name(f"{name}.jsonl")
    return agent


def _first_ms(file: Path) -> int:
    for _, line in objects(file, Ledger()):
        if (ms := milliseconds(line.get("timestamp"))) is not None:
            return ms
    return 0


# One session


class _Session:
    """One session's transcripts, less the responses that an earlier session has."""

    def __init__(self, main: Path, agents: Sequence[Path], seen: set[str], ledger: Ledger) -> None:
        self._file = main
        self._ledger = ledger
        self._notes = Notes()
        named = {file.name.partition(".jsonl")[0].removeprefix("agent-"): file for file in agents}
        self._main = read_transcript(main, ledger, is_main=not _is_agent(main), agents=named)
        self._agents = {name: read_transcript(file, ledger) for name, file in named.items()}
        self._spawns: dict[str, Spawn] = {}
        self._results: dict[str, AgentResult] = {}
        for transcript in (self._main, *self._agents.values()):
            self._spawns |= transcript.spawns
            self._results |= transcript.results
        self._main.compactions_ms.sort()
        self._find_missing_agents()
        self._drop(seen)

    def imported(self) -> ImportedSession | None:
        """Return the session, None, noted, if it has no request of its own."""
        helpers = {
            name: each for name, each in self._agents.items() if name.startswith(_EXTENDS_MAIN)
        }
        items = list(self._main.responses)
        apart: list[Transcript] = []
        for name, helper in helpers.items():
            if name.startswith(_COMPACTION) or not _overlap(helper.responses, items):
                _insert(items, helper.responses)
            else:
                apart.append(helper)
        if not items:
            self._ledger.leave_out("log without a request of its own")
            return None
        if len(self._main.sessions) > 1:
            self._notes.assumed[_MIXED] += 1
        main, calls = self._main_conversation(items)
        subagents = [self._side_agent(each, main, calls) for each in apart if each.responses]
        subagents += self._subagents([name for name in self._agents if name not in helpers])
        return ImportedSession(
            name=self._file.name.partition(".jsonl")[0],
            requests=main.requests,
            subagents=tuple(sorted(subagents, key=lambda agent: agent.spawn_ms)),
            system_tokens=main.standing_tokens,
            project=str(self._file.parent),
            notes=self._notes,
        )

    def _find_missing_agents(self) -> None:
        """Add agents without a file: those of old versions that are lines of the main file, and
        those of whom nothing is left but what the main file repeats of them.
        """
        for prompt, transcript in self._main.sidechains():
            call = next((c for c, spawn in self._spawns.items() if spawn.prompt == prompt), "")
            name = f"sidechain-{len(self._agents)}"
            self._agents[name] = transcript
            if found := self._main.answered.get(call):
                self._results[name] = found
        for name, result in self._results.items():
            if name in self._agents or name.startswith("sidechain-"):
                continue
            transcript = self._main.repeated.get(name, Transcript())
            if (last := result.last_response(transcript)) is not None:
                transcript.responses.append(last)
            if transcript.responses:
                self._agents[name] = transcript
                self._notes.assumed[
                    "subagent without a file: taken from the session's progress lines"
                ] += 1

    def _drop(self, seen: set[str]) -> None:
        """Leave out what an earlier session holds, and note what this one does."""
        own: set[str] = set()
        for transcript in (self._main, *self._agents.values()):
            kept = [each for each in transcript.responses if each.key not in seen]
            if repeated := len(transcript.responses) - len(kept):
                self._ledger.left_out[
                    "response that an earlier session holds (resumed, forked)"
                ] += repeated
            transcript.responses[:] = kept
            own |= {each.key for each in kept}
        seen |= own

    def _main_conversation(self, items: Sequence[Response]) -> tuple[Conversation, list[Call]]:
        place = {response: index for index, response in enumerate(items)}
        own = set(self._main.responses)
        calls: list[Call] = []
        latest: int | None = None
        for index, response in enumerate(items):
            at, compacted = latest, False
            if response in own:
                at = _held_place(response, calls, place, latest)
                compacted = at is not None and self._compacted_between(items[at], response)
                if compacted and items[index - 1] in own:
                    self._notes.assumed["compaction whose own call is not in the log"] += 1
                latest = index
            elif index and items[index - 1] not in own:
                at = index - 1
            calls.append(response.call(self._notes, compacted=compacted, parent=at))
        return conversation(calls, by_cache, self._notes), calls

    def _compacted_between(self, before: Response, after: Response) -> bool:
        boundaries_ms = self._main.compactions_ms
        return bisect_right(boundaries_ms, before.first_ms) < bisect_right(
            boundaries_ms, after.first_ms
        )

    def _side_agent(
        self, transcript: Transcript, main: Conversation, main_calls: Sequence[Call]
    ) -> ImportedSubagent:
        """Return a helper that ran beside the main agent: nobody waits for it."""
        calls = [response.call(self._notes) for response in transcript.responses]
        starts_ms = [request.start_ms for request in main.requests]
        at = bisect_right(starts_ms, calls[0].start_ms) - 1
        first = (main.requests[at], by_cache(main_calls[at], calls[0])[0]) if at >= 0 else (None, 0)
        requests = conversation(calls, by_cache, self._notes, first).requests
        return ImportedSubagent(requests[0].start_ms, None, "", requests)

    def _subagents(self, names: Sequence[str]) -> Iterator[ImportedSubagent]:
        """Yield the agents in order of their first request.

        One may share tools and system prompt with an earlier one of its type and model.
        """
        siblings: dict[tuple[str, str], Request] = {}
        used = [name for name in names if self._agents[name].responses]
        for name in sorted(used, key=lambda each: self._agents[each].responses[0].counted.start_ms):
            transcript, result = self._agents[name], self._results.get(name)
            spawn = self._spawns.get(result.call) if result else None
            if result is not None:
                result.correct_last(transcript)
            calls = [response.call(self._notes) for response in transcript.responses]
            kind = spawn.kind if spawn else ""
            sibling = siblings.get((kind, calls[0].model))
            first = (sibling, calls[0].cached_tokens)
            requests = conversation(calls, by_cache, self._notes, first).requests
            siblings.setdefault((kind, calls[0].model), requests[0])
            waits = result is not None and spawn is not None and not result.background
            yield ImportedSubagent(
                spawn_ms=spawn.ms if spawn else transcript.first_ms,
                join_ms=result.ms if waits and result else None,
                kind=kind,
                requests=requests,
            )


def _overlap(helper: Sequence[Response], main: Sequence[Response]) -> bool:
    """Whether any request of a helper was in flight together with one of the main agent."""
    return any(
        each.counted.start_ms < other.last_ms and other.counted.start_ms < each.last_ms
        for each in helper
        for other in main
    )


def _insert(items: list[Response], responses: Sequence[Response]) -> None:
    for response in responses:
        items.insert(bisect_right([each.first_ms for each in items], response.first_ms), response)


def _held_place(
    response: Response, calls: Sequence[Call], place: dict[Response, int], latest: int | None
) -> int | None:
    """Return the index of the call that a main response goes on from, None for none.

    It is the one before, unless the conversation was rewound: then the prompt holds the lines of
    an earlier one, and the server found less in its cache than the one before had left there.
    """
    held = place.get(response.held) if response.held is not None else None
    if latest is None or held is None or held >= latest:
        return latest
    before = calls[latest]
    extends = response.counted.cached_tokens >= before.cached_tokens + before.written_tokens
    return latest if extends else held
