"""Which level a sweep measures next, decided by the points that it has so far. Pure.

A sweep asks its ``LevelSource`` before each level. A fixed list is one source; a search that
decides by what was measured is another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agentx_replay.results.layout import Measurement

if TYPE_CHECKING:
    from agentx_replay.analysis.early import EarlyRule
    from agentx_replay.analysis.point import Point


@dataclass(frozen=True, slots=True)
class Done:
    """No level follows. ``why`` is shown to a person unless it is empty."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class SearchRange:
    """Where a search begins and between which levels it stays; how many seconds it may take (None:
    any), and whether a level that clearly fails is stopped early.
    """

    first: int = 8
    low: int = 1
    high: int = 512
    budget_s: float | None = None
    early_stop: bool = True


class LevelSource(Protocol):
    """Decides by ``history``: the latest point of each level measured so far, those kept by
    ``--resume`` first. Equal histories get equal answers, so that a run can be resumed.
    """

    def next_level(self, history: Sequence["Point"]) -> Measurement | Done:
        """Return the level to measure next; one in ``history`` is measured again in its place."""

    def early_rule(self, history: Sequence["Point"]) -> "EarlyRule | None":  # noqa: ARG002
        """Return by what the next level is stopped early; None if by nothing."""
        return None

    def ahead(self, history: Sequence["Point"]) -> tuple[Measurement, ...]:
        """Return the levels certain to follow, in order: their plans are shown beforehand."""
        level = self.next_level(history)
        return () if isinstance(level, Done) else (level,)


@dataclass(frozen=True, slots=True)
class FixedLevels(LevelSource):
    """The levels asked for, in this order: all of a start before those of the next."""

    concurrency: tuple[int, ...]
    starts: int = 1

    def next_level(self, history: Sequence["Point"]) -> Measurement | Done:
        return next(iter(self.ahead(history)), Done())

    def ahead(self, history: Sequence["Point"]) -> tuple[Measurement, ...]:
        measured = {point.measurement for point in history}
        every = (
            Measurement(level, start)
            for start in range(1, self.starts + 1)
            for level in self.concurrency
        )
        return tuple(level for level in every if level not in measured)
