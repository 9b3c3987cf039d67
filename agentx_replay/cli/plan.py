"""``agentx-replay plan``: what a run would do, without sending anything."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from agentx_replay.cli.options import GroupedCommand, options_of
from agentx_replay.cli.output import say, say_document, width
from agentx_replay.experiment.settings import Settings
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.plan.selection import Selection
from agentx_replay.report.plan_lines import (
    LevelPlan,
    corpus_lines,
    lane_lines,
    level_plan,
    levels_section,
    selection_totals,
)
from agentx_replay.report.tables import sections_text
from agentx_replay.scenario import Scenario, load_scenario, with_overrides
from agentx_replay.shipped import shipped_directory
from agentx_replay.text_format import wrapped
from agentx_replay.traces.model import Corpus
from agentx_replay.traces.statistics import duplicate_families

if TYPE_CHECKING:
    from agentx_replay.analysis.point import Point
    from agentx_replay.experiment.memory import LevelMemory

_SIMULATED_SALT = "plan"
"""Two simulations of one plan are the same to the byte."""


_WORDS = "what t*, a conversation, a primer and the other words mean: agentx-replay docs glossary"
_TOOL_MESSAGES = (
    "Answers are sent as tool calls and what follows as their results: not comparable with plain "
    "messages."
)
_LIVE_HISTORY = "Later prompts say what the server answered: not comparable with runs that do not."


@click.command(cls=GroupedCommand, params=options_of("plan"))
def plan(
    concurrency: tuple[int, ...],
    scenario: str,
    override: tuple[str, ...],
    window: float | None,
    traces: Path | None,
    starts: int | None,
    nodes: int | None,
    lanes: bool,
    simulate: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Print what a run would do: sessions, requests, tokens, time and memory of each level.

    \b
    agentx-replay plan --scenario agentx --concurrency 8
    """
    windows = [] if window is None else [f"window_s={window}"]
    settings = Settings(
        traces=traces or shipped_directory("traces"),
        scenario=with_overrides(load_scenario(scenario), [*override, *windows]),
        concurrency=concurrency,
        starts=starts or 1,
        virtual=simulate,
        salt=_SIMULATED_SALT,
        **options,
    )
    rules, tool_messages = settings.scenario, settings.tool_messages
    live_history = settings.live_history
    corpus, selection = settings.source().read()
    library = GraphLibrary(selection, rules)
    plans = [
        level_plan(
            Plan(rules, corpus.fingerprint, library, level, start), live_history=live_history
        )
        for start in range(1, settings.starts + 1)
        for level in concurrency
    ]
    points = _simulated(settings) if simulate else []
    if as_json:
        document = _document(corpus, selection, rules, plans, points)
        if nodes is not None:
            document["machines"] = [_on_machines(selection, each, nodes) for each in plans]
        say_document(document | {"tool_messages": tool_messages, "live_history": live_history})
        return
    say("\n".join(_lines(corpus, selection, rules, plans, lanes=lanes)))
    if nodes is not None:
        from agentx_replay.report.machine_sections import planned_line

        for each in plans:
            say(planned_line(**_on_machines(selection, each, nodes)))
    if tool_messages:
        say(_TOOL_MESSAGES)
    if live_history:
        say(_LIVE_HISTORY)
    # The analysis is not needed for a plan in JSON.
    from agentx_replay.analysis.findings import Kind
    from agentx_replay.analysis.point import run_findings
    from agentx_replay.report.run_sections import finding_lines, planned_starts, points_section

    for line in planned_starts(settings.starts, points):
        say("\n".join(wrapped(line, width())))
    if points:
        say("\n" + sections_text([points_section(points)], width()))
    for line in finding_lines(run_findings(points), Kind.INVALID):
        say("\n".join(wrapped(line, width())))


def _lines(
    corpus: Corpus, selection: Selection, rules: Scenario, plans: list[LevelPlan], *, lanes: bool
) -> list[str]:
    totals = selection_totals(selection)
    memory = [_memory(selection, plan)[0].total_bytes for plan in plans]
    table = levels_section(plans, totals["sessions"], memory)
    said = [
        *corpus_lines(corpus, selection, rules),
        f"  {totals['input_tokens']:,} tokens in, {totals['output_tokens']:,} out, "
        f"{totals['reuse']:.1%} reusable with an unlimited cache",
    ]
    return [
        *(piece for line in said for piece in wrapped(line, width())),
        "",
        sections_text([table], width()),
        *((line for level in plans for line in ("", *lane_lines(level))) if lanes else ()),
        "",
        *wrapped(_WORDS, width()),
    ]


def _memory(selection: Selection, level: LevelPlan, machines: int = 1) -> tuple["LevelMemory", int]:
    """Return the memory that a level takes at most, and its workers, on each of so many machines
    that are like this one.
    """
    from agentx_replay.endpoint.kernel_stamps import timestamps_here
    from agentx_replay.experiment.memory import level_memory
    from agentx_replay.experiment.workers import workers_on

    cores = len(os.sched_getaffinity(0))
    workers = workers_on(machines, level.concurrency, None, timestamps_here(), cores)
    each = -(-workers // machines)
    return level_memory(selection, level.text_bytes // machines, each), each


def _on_machines(selection: Selection, level: LevelPlan, nodes: int) -> dict[str, int]:
    """Return what a level asks of each of ``nodes`` machines, at most."""
    machines = min(nodes, level.concurrency)
    memory, workers = _memory(selection, level, machines)
    return {
        "agents": level.concurrency,
        "machines": machines,
        "workers": workers,
        "memory_bytes": memory.total_bytes,
    }


def _document(
    corpus: Corpus,
    selection: Selection,
    rules: Scenario,
    plans: list[LevelPlan],
    points: list["Point"],
) -> dict[str, Any]:
    totals = selection_totals(selection)
    document: dict[str, Any] = {
        "corpus": {"name": corpus.name, "fingerprint": corpus.fingerprint, **totals},
        "left_out": [asdict(out) for out in selection.left_out],
        "near_duplicates": duplicate_families(selection.sources),
        "skipped": corpus.skipped,
        "scenario": {**asdict(rules), "fingerprint": rules.fingerprint},
        "starts": max(plan.start for plan in plans),
        "least_s": sum(plan.least_s for plan in plans),
        "most_s": sum(plan.most_s for plan in plans),
        "levels": [
            {**asdict(level), "memory": asdict(_memory(selection, level)[0])} for level in plans
        ],
    }
    if points:
        from agentx_replay.report.run_sections import points_json

        document["simulated"] = points_json(points)
    return document


def _simulated(settings: Settings) -> list["Point"]:
    from agentx_replay.experiment.sweep import Sweep
    from agentx_replay.report.progress import ProgressScreen
    from agentx_replay.target import in_process_target

    with TemporaryDirectory() as directory:
        sweep = Sweep(replace(settings, out=Path(directory) / "run"), in_process_target())
        points = list(sweep.run(ProgressScreen(None)))
        if sweep.interrupted:
            raise KeyboardInterrupt
        return points
