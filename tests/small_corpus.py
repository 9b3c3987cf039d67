"""Small corpora written as trace files, and replays of them against one engine in virtual time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from virtual_replay import Log

from agentx_replay.experiment.prompting import Prompting
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.plan.selection import select_sessions
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.replay.driver import Replay, ReplayResult
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.scenario import Scenario, SharedPrefix
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Corpus


def request(
    t_s: float, blocks: Sequence[int], *, out: int = 8, in_: int | None = None, **more: Any
) -> dict[str, Any]:
    """A recorded request whose prompt is these blocks of 64 tokens."""
    tokens = 64 * len(blocks) if in_ is None else in_
    usual = {"t": t_s, "type": "n", "model": "m", "in": tokens, "out": out, "api_time": 1.0}
    return usual | {"hash_ids": list(blocks)} | more


def subagent(t_s: float, requests: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A subagent marker at ``t_s``, which is its spawn; inner times count from the session's."""
    usual = {"t": t_s, "type": "subagent", "agent_id": "a", "subagent_type": "Explore"}
    return usual | {"status": "completed", "duration_ms": None, "requests": list(requests)} | more


def session(name: str, *entries: dict[str, Any], tools: int = 0, system: int = 0) -> dict[str, Any]:
    """A recorded session."""
    return {
        "id": name,
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": tools,
        "system_tokens": system,
        "requests": list(entries),
    }


def corpus(directory: Path, *sessions: dict[str, Any]) -> Corpus:
    """Write the sessions to files and read them, in the order given."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(sessions):
        (directory / f"{number:03d}.json").write_bytes(orjson.dumps(each))
    return read_corpus(directory)


def planned(of: Corpus, scenario: Scenario, lanes: int) -> Plan:
    """The plan of a level over the whole corpus."""
    library = GraphLibrary(select_sessions(of, max_context=None), scenario)
    return Plan(scenario, of.fingerprint, library, lanes)


@dataclass(frozen=True, slots=True)
class Run:
    """One level to replay: its plan, the run's salt, and which attempt at the level it is."""

    plan: Plan
    salt: str
    attempt: int = 0
    shared_prefix: SharedPrefix = "session"


@dataclass(slots=True)
class Played:
    """What one level sent and got."""

    result: ReplayResult
    log: Log = field(default_factory=Log)

    def cached(self) -> list[tuple[int, int, int, int, int | None]]:
        """(lane, play number, stream, turn, cached tokens) of every request, in order of these."""
        return sorted(
            (d.lane, d.play_number, d.conversation, d.turn, r.cached_tokens)
            for d, r in self.log.requests
        )


def replay_all(*runs: Run, model: EngineModel | None = None) -> list[Played]:
    """Replay levels one after the other against one engine, whose cache stays warm."""

    async def main() -> list[Played]:
        clock = virtual_clock()
        endpoint = InProcessEndpoint(clock, model or EngineModel())
        return [await _replay(run, endpoint) for run in runs]

    async def _replay(run: Run, endpoint: InProcessEndpoint) -> Played:
        prompting = Prompting(
            chat_wording(builtin_vocabulary()), CHATML, run.salt, run.shared_prefix
        )
        prompts = prompting.level(run.plan.concurrency, run.attempt)
        log = Log()
        replay = Replay(run.plan, prompts, virtual_clock(), endpoint, log, run_id="t")
        return Played(await replay.run(), log)

    return run_virtual(main())
