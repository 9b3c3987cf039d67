"""``agentx-replay plan``: what a run would do, without sending anything."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from agentx_replay.cli.numerals import Whole
from agentx_replay.cli.options import (
    MOST_TOKENS,
    NamedPath,
    config_option,
    duplicates_option,
    levels,
    live_history_option,
    refuse_live_history_with,
    resolve_scenario,
    scenario_option,
    starts_option,
    tool_messages_option,
)
from agentx_replay.cli.output import say, say_document
from agentx_replay.cli.sections import SectionedCommand
from agentx_replay.experiment.sessions import SessionSource
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.plan.selection import ContextPolicy, Selection
from agentx_replay.report.plan_lines import (
    LevelPlan,
    level_plan,
    plan_lines,
    selection_totals,
    whole_time,
    whole_time_s,
)
from agentx_replay.report.sweep_lines import corpus_lines
from agentx_replay.scenario import Scenario
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.model import Corpus
from agentx_replay.traces.statistics import duplicate_families
from agentx_replay.wording import wrapped

if TYPE_CHECKING:
    from agentx_replay.analysis.point import Point
    from agentx_replay.experiment.memory import LevelMemory

_SIMULATED_SALT = "plan"
"""Two simulations of one plan are the same to the byte."""


_WORDS = "What t*, a stream, a primer and the other words mean: docs/glossary.md."
_TOOL_MESSAGES = (
    "Answers are sent as tool calls and what follows as their results: not comparable with plain "
    "messages."
)
_LIVE_HISTORY = "Later prompts say what the server answered: not comparable with runs that do not."


@click.command(cls=SectionedCommand)
@click.option(
    "--concurrency",
    type=click.UNPROCESSED,
    default="8",
    show_default=True,
    callback=levels,
    metavar="N,N,…",
    help="Levels, each planned on its own.",
)
@click.option("--traces", type=NamedPath(path_type=Path), metavar="PATH", help="Default: bundled.")
@scenario_option
@starts_option
@click.option(
    "--max-context",
    type=Whole(1, MOST_TOKENS),
    metavar="TOKENS",
    help="Leave out sessions that need more. Default: none.",
)
@click.option(
    "--max-context-policy",
    type=click.Choice(["session", "request"]),
    default="session",
    show_default=True,
    help="Leave out whole sessions, or single requests.",
)
@duplicates_option
@tool_messages_option
@click.option("--skip-bad", is_flag=True, help="Leave out trace files that cannot be read.")
@live_history_option
@click.option("--simulate", is_flag=True, help="Play it in virtual time on the simulator, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@config_option
def plan(
    concurrency: tuple[int, ...],
    traces: Path | None,
    scenario: str,
    override: tuple[str, ...],
    starts: int | None,
    max_context: int | None,
    max_context_policy: ContextPolicy,
    keep_one_of_duplicates: bool,
    tool_messages: bool,
    skip_bad: bool,
    live_history: bool,
    simulate: bool,
    as_json: bool,
) -> None:
    """Print what a run would do: sessions, lanes, t*, primers, first requests, fingerprints.

    \b
    agentx-replay plan --scenario agentx --concurrency 8
    """
    if live_history:
        refuse_live_history_with(simulate=simulate, tool_messages=tool_messages)
    rules = resolve_scenario(scenario, override)
    source = SessionSource(
        traces or shipped_directory("traces"),
        skip_bad,
        max_context,
        max_context_policy,
        rules.max_sessions,
        keep_one_of_duplicates,
    )
    corpus, selection = source.read()
    library = GraphLibrary(selection, rules)
    plans = [
        level_plan(
            Plan(rules, corpus.fingerprint, library, level, start), live_history=live_history
        )
        for start in range(1, (starts or 1) + 1)
        for level in concurrency
    ]
    points = _simulated(source, rules, concurrency, starts or 1, tool_messages) if simulate else []
    if as_json:
        document = _document(corpus, selection, rules, plans, points)
        say_document(document | {"tool_messages": tool_messages, "live_history": live_history})
        return
    say("\n".join(_lines(corpus, selection, rules, plans)))
    if tool_messages:
        say(_TOOL_MESSAGES)
    if live_history:
        say(_LIVE_HISTORY)
    # The analysis is not needed for a plan in JSON.
    from agentx_replay.report.start_lines import planned_starts

    say("\n".join(line for each in planned_starts(starts or 1, points) for line in wrapped(each)))
    if points:
        from agentx_replay.report.points_table import points_table

        say("\n" + points_table(points))


def _lines(
    corpus: Corpus, selection: Selection, rules: Scenario, plans: list[LevelPlan]
) -> list[str]:
    totals = selection_totals(selection)
    return [
        *corpus_lines(corpus, selection, rules),
        f"  {totals['input_tokens']:,} tokens in, {totals['output_tokens']:,} out, "
        f"{totals['reuse']:.1%} reusable with an unlimited cache",
        *(line for level in plans for line in plan_lines(level, _memory(selection, level).lines())),
        *whole_time(plans),
        _WORDS,
    ]


def _memory(selection: Selection, level: LevelPlan) -> "LevelMemory":
    from agentx_replay.endpoint.kernel_stamps import timestamps_here
    from agentx_replay.experiment.memory import level_memory
    from agentx_replay.experiment.workers import workers_for

    workers = workers_for(level.concurrency, None, timestamps_here())
    return level_memory(selection, level.text_bytes, workers)


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
        **whole_time_s(plans),
        "levels": [
            {**asdict(level), "memory": asdict(_memory(selection, level))} for level in plans
        ],
    }
    if points:
        from agentx_replay.report.points_table import points_json

        document["simulated"] = points_json(points)
    return document


def _simulated(
    source: SessionSource,
    rules: Scenario,
    concurrency: tuple[int, ...],
    starts: int,
    tool_messages: bool,
) -> list["Point"]:
    from agentx_replay.cli.target import in_process_target
    from agentx_replay.experiment.settings import Settings
    from agentx_replay.experiment.sweep import Sweep
    from agentx_replay.report.progress import ProgressScreen

    with TemporaryDirectory() as directory:
        settings = Settings(
            traces=source.traces,
            scenario=rules,
            levels=concurrency,
            out=Path(directory) / "run",
            salt=_SIMULATED_SALT,
            command=(),
            max_context=source.max_context,
            context_policy=source.context_policy,
            keep_one_of_duplicates=source.keep_one_of_duplicates,
            skip_bad=source.skip_bad,
            starts=starts,
            tool_messages=tool_messages,
        )
        sweep = Sweep(settings, in_process_target())
        points = list(sweep.run(ProgressScreen(None)))
        if sweep.interrupted:
            raise KeyboardInterrupt
        return points
