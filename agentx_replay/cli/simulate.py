"""``agentx-replay simulate``: serve the simulator on a port."""

from dataclasses import fields

import click

from agentx_replay.cli.options import Option
from agentx_replay.cli.values import Real, Whole
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.process import serve
from agentx_replay.simulator.server import ServerConfig

_HELP = {
    "max_model_len": "Longest prompt and output, in tokens.",
    "cache_blocks": "Prefix cache and working memory, in blocks of 64 tokens.",
}


def _engine_options() -> list[click.Parameter]:
    return [
        Option(
            [f"--{each.name.replace('_', '-')}"],
            default=each.default,
            type=Whole() if each.type is int else Real(),
            show_default=True,
            help=_HELP.get(each.name),
        )
        for each in fields(EngineModel)
        if each.name != "block_tokens"
    ]


@click.command(params=_engine_options())
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", cls=Option, default=8000, show_default=True, type=Whole(0, 65535))
@click.option("--model", default="simulated", show_default=True, help="Name it is served under.")
def simulate(host: str, port: int, model: str, **engine: float) -> None:
    """Serve a modelled engine with a real prefix cache, OpenAI-compatible.

    A step takes base + per sequence + per context token + per prefilled token; it is a model, not
    a GPU. Binds this machine's loopback unless told otherwise, and prints nothing of its requests.

    \b
    agentx-replay simulate --port 8000
    """
    config = ServerConfig(host=host, port=port, model=model, engine=EngineModel(**engine))  # type: ignore[arg-type]
    serve(config, lambda url: click.echo(f"serving {model} at {url}"))
