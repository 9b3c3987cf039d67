"""What a level's parent and its workers tell each other, beside looks and outcomes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentx_replay.errors import UsageError
from agentx_replay.experiment.part import Part
from agentx_replay.experiment.prompting import Prompting
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.replay.ports import Clock, Endpoint
from agentx_replay.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to play; everything it needs, and nothing large."""

    source: SessionSource
    corpus_fingerprint: str
    scenario: Scenario
    prompting: Prompting
    attempt: int
    start: int
    concurrency: int
    run_id: str
    directory: Path
    origin_ns: int
    open: Callable[[Clock], Endpoint]
    worker: int
    workers: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A ``UsageError``, told to the parent."""

    code: str
    what: str
    what_to_do: str
    exit_code: int


def part_of(job: Job) -> Part:
    """Read the corpus and return the part. Raises ``UsageError``, also where it has changed."""
    corpus, selection = job.source.read()
    if corpus.fingerprint != job.corpus_fingerprint:
        raise UsageError(
            "sessions-changed-at-start",
            f"the sessions under {job.source.traces} changed while the run was starting",
            "leave them alone and run again",
        )
    library = GraphLibrary(selection, job.scenario)
    plan = Plan(job.scenario, corpus.fingerprint, library, job.concurrency, job.start)
    return Part(
        plan=plan,
        prompts=job.prompting.level(job.concurrency, job.attempt, job.start),
        run_id=job.run_id,
        directory=job.directory,
        origin_ns=job.origin_ns,
        open=job.open,
        worker=job.worker,
        workers=job.workers,
    )
