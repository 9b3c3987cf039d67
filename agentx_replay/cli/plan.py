"""``agentx-replay plan``: what a run would do, without sending anything."""

from dataclasses import asdict
from pathlib import Path

import click
import orjson

from agentx_replay.cli.options import config_option, levels, resolve_scenario, scenario_option
from agentx_replay.plan.plan import GraphLibrary, Plan
from agentx_replay.plan.selection import ContextPolicy, select_sessions
from agentx_replay.report.plan_lines import level_plan, plan_lines, selection_totals
from agentx_replay.report.sweep_lines import corpus_lines
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus


@click.command()
@click.option("--concurrency", default="8", show_default=True, callback=levels, metavar="N,N,…")
@click.option("--traces", type=click.Path(path_type=Path), metavar="PATH", help="Default: bundled.")
@scenario_option
@click.option("--max-context", type=click.IntRange(1), metavar="TOKENS")
@click.option(
    "--max-context-policy",
    type=click.Choice(["session", "request"]),
    default="session",
    show_default=True,
)
@click.option("--skip-bad", is_flag=True, help="Leave out trace files that cannot be read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@config_option
def plan(
    concurrency: tuple[int, ...],
    traces: Path | None,
    scenario: str,
    override: tuple[str, ...],
    max_context: int | None,
    max_context_policy: ContextPolicy,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Print what a run would do: sessions, lanes, t*, first requests, fingerprints.

    \b
    agentx-replay plan --traces DIRECTORY --scenario agentx --concurrency 8
    """
    rules = resolve_scenario(scenario, override)
    corpus = read_corpus(traces or shipped_directory("traces"), skip_bad=skip_bad)
    selection = select_sessions(
        corpus, max_context=max_context, policy=max_context_policy, max_sessions=rules.max_sessions
    )
    library = GraphLibrary(selection, rules)
    plans = [Plan(rules, corpus.fingerprint, library, level) for level in concurrency]
    described = [level_plan(each) for each in plans]
    totals = selection_totals(selection)
    if as_json:
        document = {
            "corpus": {"name": corpus.name, "fingerprint": corpus.fingerprint, **totals},
            "left_out": [asdict(out) for out in selection.left_out],
            "skipped": corpus.skipped,
            "scenario": {**asdict(rules), "fingerprint": rules.fingerprint},
            "levels": [asdict(level) for level in described],
        }
        click.echo(orjson.dumps(document).decode())
        return
    lines = corpus_lines(corpus, selection, rules)
    lines.append(
        f"  {totals['input_tokens']:,} tokens in, {totals['output_tokens']:,} out, "
        f"{totals['reuse']:.1%} reusable with an unlimited cache"
    )
    for level in described:
        lines += plan_lines(level)
    click.echo("\n".join(lines))
