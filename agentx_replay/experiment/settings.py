"""What an experiment is asked to do, resolved: values that every level shares."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.endpoint.scrape import MetricsPage
from agentx_replay.errors import UsageError
from agentx_replay.experiment.levels import SearchRange
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.plan.selection import ContextPolicy
from agentx_replay.reason import Reason
from agentx_replay.replay.driver import Progress
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.replay.ports import Clock, Endpoint
from agentx_replay.results.documents import typed
from agentx_replay.results.recent import Snapshot
from agentx_replay.scenario import NOT_RULES, Scenario, load_scenario, scenario_of
from agentx_replay.secret_texts import hidden_body, hidden_header
from agentx_replay.shipped import shipped_directory

if TYPE_CHECKING:
    from agentx_replay.endpoint.settings import EndpointSettings
    from agentx_replay.experiment.fleet import Fleet


DEFAULT_LEVELS = (2, 12, 32)
"""Of the built-in simulator; those of a server are found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One sweep, as it was asked for: the options of the command line by their names.

    ``scenario`` has its overrides applied. ``max_context`` is in tokens (None: the server's own
    limit, if it reports one), ``keepalive``, ``timeout`` and ``wait`` in seconds; ``workers`` is a
    number of processes a machine (None: by lanes and cores). ``ray`` is the address of a cluster of
    client machines, of which ``nodes`` play (None: all that are fit). ``salt`` decides the words of
    every prompt; ``command`` is what was typed. ``anyway`` measures a server on which no run can be
    valid. ``slo`` are objectives as typed; ``search`` looks for the capacity under them. ``resume``
    goes on with the run in ``out``, with ``accept_differences`` even as another experiment;
    ``again`` measures what is complete and not valid once more. ``at`` are the speeds that its
    report is read off at; with ``bracket`` the sweep adds levels until they lie between two, and
    finds all of its levels if ``concurrency`` is empty.
    """

    traces: Path = field(default_factory=partial(shipped_directory, "traces"))
    scenario: Scenario = field(default_factory=partial(load_scenario, "quick"))
    concurrency: tuple[int, ...] = DEFAULT_LEVELS
    starts: int = 1
    max_context: int | None = None
    max_context_policy: ContextPolicy = "session"
    keep_one_of_duplicates: bool = False
    skip_bad: bool = False
    salt: str = field(default_factory=partial(token_hex, 8))
    slo: tuple[str, ...] = ()
    search: SearchRange | None = None
    url: tuple[str, ...] = ()
    model: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    endpoint: Literal["chat", "completions"] = "chat"
    header: tuple[str, ...] = ()
    body: str | None = None
    session_headers: bool = False
    ca_file: Path | None = None
    insecure: bool = False
    keepalive: float | None = None
    timeout: float | None = None
    wait: float = 10.0
    timestamps: Literal["auto", "kernel", "process"] = "auto"
    metrics_url: tuple[str, ...] = ()
    virtual: bool = False
    gpus: int | None = None
    system: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Path | None = None
    calibration: Path | None = None
    tool_messages: bool = False
    live_history: bool = False
    workers: int | None = None
    ray: str | None = None
    nodes: int | None = None
    insecure_ray: bool = False
    at: tuple[float, ...] = (30.0, 50.0, 150.0)
    bracket: bool = False
    anyway: bool = False
    note: str | None = None
    tag: tuple[str, ...] = ()
    out: Path = field(default_factory=lambda: Path("results") / time.strftime("%Y%m%d-%H%M%S"))
    command: tuple[str, ...] = ()
    resume: bool = False
    again: bool = False
    accept_differences: bool = False

    def __post_init__(self) -> None:
        way_out = "leave one of them out"
        history = "--live-history feeds answers back as messages, and"
        chat = self.endpoint == "chat"
        for clash, error in (
            (self.again and not self.resume, UsageError(
                "again-without-resume", "--again goes with --resume", "add --resume --out DIR")),
            (self.virtual and self.url, UsageError(
                "virtual-with-url", "--virtual has no wire, so it cannot reach --url", way_out)),
            (self.virtual and self.workers is not None, UsageError(
                "workers-in-virtual-time", "--virtual has one clock and no processes",
                "leave --workers out")),
            (self.virtual and self.timestamps == "kernel", UsageError(
                "virtual-with-kernel-timestamps",
                "--virtual has no arrivals that a kernel could timestamp", way_out)),
            (self.ray and not self.url, UsageError(
                "ray-without-server", "--ray plays on other machines, which reach no simulator",
                "name the server with --url")),
            (self.nodes is not None and not self.ray, UsageError(
                "nodes-without-ray", "--nodes is of the machines of a Ray cluster",
                "name the cluster with --ray, or leave --nodes out")),
            (self.live_history and self.virtual, UsageError(
                "live-history-without-server",
                f"{history} --virtual or --simulate has no server to give any", way_out)),
            (self.live_history and not chat, UsageError(
                "live-history-of-completions",
                f"{history} --endpoint completions takes none", way_out)),
            (self.live_history and self.tool_messages, UsageError(
                "live-history-with-tool-messages", f"{history} --tool-messages makes calls of them",
                way_out)),
            (self.tool_messages and not chat, UsageError(
                "tool-messages-without-chat",
                "--tool-messages requires the chat API, and --endpoint is completions", way_out)),
        ):  # fmt: skip
            if clash:
                raise error

    def source(self, max_context: int | None = None) -> SessionSource:
        """Return which sessions are replayed, at most as long as ``max_context`` if none is set."""
        return SessionSource(
            traces=self.traces,
            skip_bad=self.skip_bad,
            max_context=self.max_context or max_context,
            context_policy=self.max_context_policy,
            max_sessions=self.scenario.max_sessions,
            keep_one_of_duplicates=self.keep_one_of_duplicates,
            order=self.scenario.order,
        )

    def document(self) -> dict[str, Any]:
        """Return as JSON what ``sweep.json`` has nowhere else, without secrets and with whole
        paths; ``settings_of`` reads it back.
        """
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in _ELSEWHERE}
        paths = {name: str(v.absolute()) for name, v in plain.items() if isinstance(v, Path)}
        header = [hidden_header(each) for each in self.header]
        body = self.body and hidden_body(self.body)
        return {**plain, **paths, "header": header, "body": body}


_ELSEWHERE = frozenset(
    ("scenario", "concurrency", "starts", "gpus", "system", "salt", "tool_messages", "live_history",
     "out", "command", "resume", "again", "accept_differences")
)  # fmt: skip


def scenario_on_record(sweep: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a ``sweep.json``. Raises ``UsageError`` for rules unknown today."""
    told = sweep.get("scenario", {})
    rules = {k: v for k, v in told.items() if k not in NOT_RULES and v is not None}
    scenario = scenario_of(told.get("name", ""), rules, "sweep.json")
    return replace(scenario, overridden=tuple(told.get("overridden", ())))


def settings_of(sweep: Mapping[str, Any], out: Path) -> Settings:
    """Return the settings that a ``sweep.json`` was written from, its secrets hidden in them.

    Raises ``UsageError`` for rules unknown today, ``ValueError`` or ``KeyError`` for damage.
    """
    names = ("starts", "gpus", "salt", "tool_messages", "live_history")
    told = {**sweep["settings"], **{name: sweep[name] for name in names}}
    told |= {"system": sweep.get("system", {}), "concurrency": sweep["levels"], "out": str(out)}
    found = typed(Settings, told, "settings")
    return replace(found, scenario=scenario_on_record(sweep))


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured. ``virtual`` runs in virtual time, without a wire.

    ``open`` makes the endpoint inside the running loop, and can be sent to another process.
    ``max_context`` is what the server says it can hold, None where it does not. ``metrics`` are
    pages to scrape during a run. ``endpoint`` is how to reach it, to calibrate against it; None
    where there is no wire; ``replicas`` are the other servers where there are several. ``facts``
    go into ``sweep.json``; ``told``, the facts of the system that the server knows too, into each
    ``point.json``; ``secrets`` never do. ``timestamps`` is who says when bytes arrive.
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
    told: Mapping[str, Any] = field(default_factory=dict)
    timestamps: Timestamps = "process"
    machines: "Fleet | None" = None


class Screen(Protocol):
    """Where a person looks while it runs."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def levels_left(self, levels: int, window_s: float) -> None:
        """Say how many levels are certain to be measured yet, the one that begins now included."""

    def level_begins(self, concurrency: int, start: int, starts: int) -> None:
        """Say that a level begins, at one of its ``starts``."""

    def show(self, progress: Progress, recent: Snapshot, load: ClientLoad) -> None:
        """Show where the level is now; called about once a second."""

    def level_ends(self) -> None:
        """Take what was shown of the level off the screen."""
