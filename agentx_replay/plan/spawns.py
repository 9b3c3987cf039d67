"""A graph's spawns the other way round: which streams a step starts, and whose child each is."""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from agentx_replay.plan.graph import SessionGraph, StepId


class SpawnedStream(NamedTuple):
    """A stream that a step starts, at its issue or at its live end, after ``offset_s``."""

    stream: int
    at_issue: bool
    offset_s: float


@dataclass(frozen=True, slots=True)
class SpawnIndex:
    """``by_step[step]``: the streams that a step starts. ``parents[s]``: the stream that
    stream s drains into; the main stream's own entry is itself.
    """

    by_step: dict[StepId, tuple[SpawnedStream, ...]]
    parents: tuple[int, ...]


def index_spawns(graph: SessionGraph) -> SpawnIndex:
    """Return the index of a graph; a stream that starts with the play drains into the main one."""
    by_step: dict[StepId, list[SpawnedStream]] = defaultdict(list)
    parents = []
    for stream in graph.streams:
        after = stream.spawn.after if stream.spawn is not None else None
        parents.append(after.stream if after is not None else 0)
        if stream.spawn is not None and after is not None:
            spawned = SpawnedStream(stream.index, stream.spawn.at_issue, stream.spawn.offset_s)
            by_step[after].append(spawned)
    return SpawnIndex({step: tuple(spawned) for step, spawned in by_step.items()}, tuple(parents))
