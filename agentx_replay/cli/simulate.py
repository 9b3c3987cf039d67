"""``agentx-replay simulate``: serve the simulator on a port."""

import click

from agentx_replay.cli.numerals import Real, Whole
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import serve
from agentx_replay.simulator.server import ServerConfig

_ENGINE = EngineModel()


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=Whole(0, 65535))
@click.option("--model", default="simulated", show_default=True, help="Name it is served under.")
@click.option(
    "--max-model-len",
    default=_ENGINE.max_model_len,
    type=Whole(),
    show_default=True,
    help="Longest prompt and output, in tokens.",
)
@click.option(
    "--cache-blocks",
    default=_ENGINE.cache_blocks,
    type=Whole(),
    show_default=True,
    help="Prefix cache and working memory, in blocks of 64 tokens.",
)
@click.option("--max-running", default=_ENGINE.max_running, type=Whole(), show_default=True)
@click.option("--step-base-ms", default=_ENGINE.step_base_ms, type=Real(), show_default=True)
@click.option("--per-sequence-ms", default=_ENGINE.per_sequence_ms, type=Real(), show_default=True)
@click.option(
    "--per-context-token-ms", default=_ENGINE.per_context_token_ms, type=Real(), show_default=True
)
@click.option(
    "--per-prefill-token-ms", default=_ENGINE.per_prefill_token_ms, type=Real(), show_default=True
)
@click.option(
    "--prefill-budget-tokens",
    default=_ENGINE.prefill_budget_tokens,
    type=Whole(),
    show_default=True,
)
@click.option("--tokens-per-step", default=_ENGINE.tokens_per_step, type=Whole(), show_default=True)
def simulate(host: str, port: int, model: str, **engine: float) -> None:
    """Serve a modelled engine with a real prefix cache, OpenAI-compatible.

    A step takes base + per sequence + per context token + per prefilled token; it is a model, not
    a GPU. Binds this machine's loopback unless told otherwise, and prints nothing of its requests.

    \b
    agentx-replay simulate --port 8000
    """
    config = ServerConfig(host=host, port=port, model=model, engine=EngineModel(**engine))  # type: ignore[arg-type]
    serve(config, lambda url: click.echo(f"serving {model} at {url}"))
