"""What an experiment is asked to do, resolved: values that every level shares."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.endpoint.scrape import MetricsPage
from agentx_replay.plan.selection import ContextPolicy
from agentx_replay.reason import Reason
from agentx_replay.replay.driver import Progress
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.replay.ports import Clock, Endpoint
from agentx_replay.results.recent import Snapshot
from agentx_replay.scenario import Scenario

if TYPE_CHECKING:
    from agentx_replay.endpoint.settings import EndpointSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """One sweep. ``max_context`` in tokens (None: the server's own limit, where it tells one);
    ``salt`` decides the words of every prompt; ``tokenizer`` is a ``tokenizer.json``;
    ``calibration`` a file of an earlier run; ``tool_messages`` sends tool calls and results;
    ``keep_one_of_duplicates`` leaves near-duplicate sessions out; ``command`` is what was typed;
    ``workers`` is the number of processes that play a level (None: by its lanes and the cores);
    ``starts`` is how many starts of each level are measured;
    ``resume`` goes on with the run in ``out``, with ``accept_differences`` even as another one;
    ``live_history`` has later prompts say what the server answered, in place of words.
    """

    traces: Path
    scenario: Scenario
    levels: tuple[int, ...]
    out: Path
    salt: str
    command: tuple[str, ...]
    gpus: int | None = None
    max_context: int | None = None
    context_policy: ContextPolicy = "session"
    keep_one_of_duplicates: bool = False
    tokenizer: Path | None = None
    calibration: Path | None = None
    tool_messages: bool = False
    skip_bad: bool = False
    workers: int | None = None
    resume: bool = False
    accept_differences: bool = False
    starts: int = 1
    live_history: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured. ``virtual`` runs in virtual time, without a wire.

    ``open`` makes the endpoint inside the running loop, and can be sent to another process.
    ``max_context`` is what the server says it can hold, None where it does not. ``metrics`` are
    pages to scrape during a run. ``endpoint`` is how to reach it, to calibrate against it; None
    where there is no wire; ``replicas`` are the other servers where there are several. ``facts``
    go into ``sweep.json``; ``secrets`` never do. ``timestamps`` is who says when bytes arrive.
    """

    open: Callable[[Clock], Endpoint]
    facts: Mapping[str, Any]
    warnings: tuple[Reason, ...] = ()
    max_context: int | None = None
    virtual: bool = False
    endpoint: "EndpointSettings | None" = None
    replicas: tuple["EndpointSettings", ...] = ()
    secrets: tuple[str, ...] = ()
    metrics: tuple[MetricsPage, ...] = ()
    timestamps: Timestamps = "process"


class Screen(Protocol):
    """Where a person looks while it runs."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def level_begins(self, concurrency: int, start: int, starts: int) -> None:
        """Say that a level begins, at one of its ``starts``."""

    def show(self, progress: Progress, recent: Snapshot, load: ClientLoad) -> None:
        """Show where the level is now; called about once a second."""

    def level_ends(self) -> None:
        """Take what was shown of the level off the screen."""
