"""Options that say what to measure, and opening it: a server, the simulator, or no wire at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import orjson

from agentx_replay.cli.options import NamedPath, Seconds
from agentx_replay.errors import UsageError
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.experiment.settings import Target

if TYPE_CHECKING:
    from agentx_replay.endpoint.kernel_stamps import Timestamps
    from agentx_replay.endpoint.settings import Api, EndpointSettings

_URL = click.option(
    "--url",
    multiple=True,
    metavar="URL",
    help="The server; repeat it for replicas of one. Default: the built-in simulator.",
)

server_options = (
    click.option("--model", metavar="NAME", help="Default: the one the server lists."),
    click.option(
        "--api-key-env",
        default="OPENAI_API_KEY",
        show_default=True,
        metavar="NAME",
        help="Environment variable that holds the API key.",
    ),
    click.option("--header", multiple=True, metavar="NAME:VALUE", help="Send a header along."),
    click.option("--body", metavar="JSON", help="Send fields along in every request's body."),
    click.option(
        "--endpoint",
        type=click.Choice(["chat", "completions"]),
        default="chat",
        show_default=True,
        help="The API to ask. Completions get token ids where the server takes them.",
    ),
    click.option(
        "--ca-file",
        type=NamedPath(dir_okay=False),
        metavar="FILE",
        help="Trust this certificate authority.",
    ),
    click.option("--insecure", is_flag=True, help="Accept any certificate."),
    click.option(
        "--timestamps",
        type=click.Choice(["auto", "kernel", "process"]),
        default="auto",
        help="Who timestamps arrivals. Default: auto.",
    ),
)
"""How to talk to a server."""

target_options = (
    _URL,
    *server_options,
    click.option(
        "--session-headers",
        is_flag=True,
        help="Name each session in headers, for routers.",
    ),
    click.option(
        "--keepalive",
        type=Seconds(),
        metavar="SECONDS",
        help="Use no connection that was idle for longer.",
    ),
    click.option(
        "--timeout",
        type=Seconds(),
        metavar="SECONDS",
        help="Give up on a response after this long (at least 21600). Default: never.",
    ),
    click.option(
        "--metrics-url",
        multiple=True,
        metavar="URL",
        help="An engine's metrics page to keep on record. Default: the server's own, if any.",
    ),
    click.option("--virtual", is_flag=True, help="Replay in virtual time on a modelled engine."),
)


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The target options of one command line."""

    url: tuple[str, ...]
    model: str | None
    api_key_env: str
    header: tuple[str, ...]
    body: str | None
    endpoint: "Api"
    ca_file: str | None
    insecure: bool
    session_headers: bool = False
    keepalive: float | None = None
    timeout: float | None = None
    metrics_url: tuple[str, ...] = ()
    timestamps: str = "auto"
    virtual: bool = False
    keeps_answers: bool = False

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "TargetOptions":
        """Take the target's options out of a command's, as many as it has."""
        return cls(**{name: options.pop(name) for name in cls.__slots__ if name in options})


@contextmanager
def open_target(options: TargetOptions) -> Iterator[Target]:
    """Make the target ready to measure; the simulator lives as long as the context.

    Raises ``UsageError`` with exit code 3 for a server that cannot be measured.
    """
    if options.model is not None and not options.model.strip():
        raise UsageError(
            "model-empty",
            "--model is empty",
            "name a model, or leave it out for the one that the server lists",
        )
    raise_open_files()
    if options.virtual:
        if options.url:
            raise UsageError(
                "virtual-with-url",
                "--virtual has no wire, so it cannot reach --url",
                "leave one out",
            )
        yield in_process_target()
    elif not options.url:
        with _simulator() as url:
            yield _servers(options, (url,), {"kind": "built-in simulator"})
    else:
        yield _servers(options, options.url, {"kind": "server"})


def in_process_target() -> Target:
    """Return the simulator in virtual time, without a wire."""
    from agentx_replay.simulator.engine import EngineModel
    from agentx_replay.simulator.inprocess import InProcessEndpoint

    model = EngineModel()
    return Target(
        open=lambda clock: InProcessEndpoint(clock, model),
        facts={"kind": "simulator in virtual time", "engine": asdict(model)},
        max_context=model.context_limit_tokens,
        virtual=True,
    )


@contextmanager
def _simulator() -> Iterator[str]:
    from agentx_replay.simulator.process import launch_simulator
    from agentx_replay.simulator.server import ServerConfig

    process = launch_simulator(ServerConfig())
    try:
        yield process.url
    finally:
        process.close()


def _servers(options: TargetOptions, urls: tuple[str, ...], facts: dict[str, Any]) -> Target:
    import uvloop

    from agentx_replay.endpoint.client import open_client
    from agentx_replay.endpoint.replicas import open_replicas
    from agentx_replay.endpoint.url import refuse_twice
    from agentx_replay.experiment.replicas import ask_replicas, replica_pages, replica_warnings

    asked = [_endpoint_settings(options, url) for url in urls]
    refuse_twice("--url", [each.url for each in asked])
    names = [str(each.url) for each in asked]
    told = uvloop.run(ask_replicas(asked))
    first, *others = (
        replace(each, model=one.model, max_tokens_field=one.max_tokens_field)
        for each, one in zip(asked, told, strict=True)
    )
    servers = (first, *others)
    pages = uvloop.run(replica_pages(options.metrics_url, servers))
    limits = [one.max_model_len for one in told if one.max_model_len is not None]
    what = {"url": names if others else names[0], "metrics": [page.name for page in pages]}
    return Target(
        open=partial(open_replicas, servers) if others else partial(open_client, first),
        facts=facts | asdict(told[0]) | what,
        warnings=(*told[0].warnings(), *replica_warnings(servers, told)),
        max_context=min(limits, default=None),
        secrets=first.secrets,
        endpoint=first,
        timestamps=first.timestamps or "process",
        replicas=tuple(others),
        metrics=pages,
    )


def _endpoint_settings(options: TargetOptions, url: str) -> "EndpointSettings":
    from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
    from agentx_replay.endpoint.url import parse_base_url, refuse_proxy

    base = parse_base_url(url)
    refuse_proxy(base)
    return EndpointSettings(
        url=base,
        model=options.model or "",
        api_key=os.environ.get(options.api_key_env) or None,
        api_key_env=options.api_key_env,
        extra_body=_body(options.body),
        extra_headers=tuple(_header(header) for header in options.header),
        session_headers=options.session_headers,
        api=options.endpoint,
        tls=TlsSettings(options.ca_file, options.insecure),
        keepalive_s=options.keepalive,
        timeout_s=options.timeout,
        timestamps=timestamps_of(options.timestamps),
        keeps_answers=options.keeps_answers,
    )


def timestamps_of(asked: str) -> "Timestamps":
    """Return who will say when bytes arrive, from a test on this machine."""
    from agentx_replay.endpoint.kernel_stamps import timestamps_here

    if asked == "process":
        return "process"
    here = timestamps_here()
    if asked == "kernel" and here != "kernel":
        raise UsageError(
            "timestamps-without-kernel",
            "--timestamps kernel: this system does not say when bytes arrive",
            "leave it out, or give --timestamps process",
        )
    return here


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise UsageError(
            "header-without-value",
            f"the header {name!r} has no value",
            "write --header 'NAME: VALUE'",
        )
    return name.strip(), value.strip()


def _body(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(
            "body-not-json", f"--body is not JSON ({error})", "give one object, as '{\"top_k\": 1}'"
        ) from None
    if not isinstance(fields, dict):
        raise UsageError(
            "body-not-object", "--body is not a JSON object", "give one object, as '{\"top_k\": 1}'"
        )
    return fields
