"""What is decided for all machines of a level: when they pass a barrier, by how much idle time is
skipped, and whether the level stops.

``decide`` is pure: from what each machine reports and what holds so far to what holds next. One
machine is the case of one report. All instants are on one clock, the run's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentx_replay.reason import Reason
from agentx_replay.replay.idle import WorkerState, at_clock, system_shift_ns
from agentx_replay.replay.page import Meeting
from agentx_replay.replay.peers import failing
from agentx_replay.replay.ports import Clock


@dataclass(frozen=True, slots=True)
class Arrival:
    """A machine at a barrier: when the last of its workers came there, and the least and the most
    that any of them brought, in s.
    """

    reached_ns: int
    least_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class MachineState:
    """What a machine reports: its arrivals, barrier by barrier, the idle state of its workers as
    one (None: not known yet), the window's requests that ended and failed, and why it stops.
    """

    arrivals: tuple[Arrival, ...] = ()
    idle: WorkerState | None = None
    ended: int = 0
    failed: int = 0
    stopped: Reason | None = None

    def at_clock(self, ahead_ns: int) -> "MachineState":
        """Return the state by a clock that is ``ahead_ns`` ahead of its own."""
        arrivals = (replace(a, reached_ns=a.reached_ns + ahead_ns) for a in self.arrivals)
        idle = self.idle and at_clock(self.idle, ahead_ns)
        return replace(self, arrivals=tuple(arrivals), idle=idle)

    def differs_beyond_counts(self, other: "MachineState") -> bool:
        """Whether anything but the counts differs, which decide nothing at once."""
        own = self.arrivals, self.idle, self.stopped
        return own != (other.arrivals, other.idle, other.stopped)


@dataclass(frozen=True, slots=True)
class LevelState:
    """What holds for all machines: the barriers released so far, the idle time skipped so far, and
    why the level stops. Each only ever grows.
    """

    released: tuple[Meeting, ...] = ()
    skipped_ns: int = 0
    stopped: Reason | None = None

    def at_clock(self, ahead_ns: int) -> "LevelState":
        """Return the state by a clock that is ``ahead_ns`` ahead of its own."""
        released = (
            replace(each, reached_ns=each.reached_ns + ahead_ns, at_ns=each.at_ns + ahead_ns)
            for each in self.released
        )
        return replace(self, released=tuple(released))

    def merged(self, other: "LevelState") -> "LevelState":
        """Return what holds when both have been told, in whichever order."""
        return LevelState(
            released=max(self.released, other.released, key=len),
            skipped_ns=max(self.skipped_ns, other.skipped_ns),
            stopped=self.stopped or other.stopped,
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """The system idle cap, the level's lanes, and how long after its release a barrier opens: all
    have been told by then.
    """

    system_cap_ns: int
    concurrency: int
    release_ahead_ns: int


def decide(
    machines: Sequence[MachineState], level: LevelState, rules: Rules, now_ns: int
) -> LevelState:
    """Return what holds next. A report that is late changes when, not what, since an idle state
    stays true: it says from when to when a machine was idle, and when its next timer was due.
    """
    ended, failed = sum(m.ended for m in machines), sum(m.failed for m in machines)
    stops = (machine.stopped for machine in machines if machine.stopped is not None)
    first = level.stopped or next(stops, None)
    return LevelState(
        released=(*level.released, *_meetings(machines, len(level.released), rules, now_ns)),
        skipped_ns=level.skipped_ns + _shift_ns(machines, level, rules),
        stopped=first or failing(ended, failed, rules.concurrency),
    )


def _meetings(
    machines: Sequence[MachineState], barrier: int, rules: Rules, now_ns: int
) -> list[Meeting]:
    """Return the meeting at a barrier, if all machines have come there."""
    if any(len(machine.arrivals) <= barrier for machine in machines):
        return []
    there = [machine.arrivals[barrier] for machine in machines]
    return [
        Meeting(
            reached_ns=max(each.reached_ns for each in there),
            at_ns=now_ns + rules.release_ahead_ns,
            least_s=min(each.least_s for each in there),
            most_s=max(each.most_s for each in there),
        )
    ]


def _shift_ns(machines: Sequence[MachineState], level: LevelState, rules: Rules) -> int:
    """Return by how much idle time is skipped further, once all know what was skipped before."""
    states = [machine.idle for machine in machines if machine.idle is not None]
    knowing = [state for state in states if state.skipped_ns == level.skipped_ns]
    return system_shift_ns(knowing, rules.system_cap_ns) if len(knowing) == len(machines) else 0


class Decider:
    """Decides for the machines of a level, again and again; ``level`` is what holds by now."""

    def __init__(self, rules: Rules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self.level = LevelState()

    def __call__(self, *machines: MachineState) -> LevelState:
        self.level = decide(machines, self.level, self._rules, self._clock.now_ns())
        return self.level
