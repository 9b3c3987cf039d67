"""Opening what is measured: servers, the built-in simulator, or an engine in virtual time."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.secret_texts import without_credentials

if TYPE_CHECKING:
    from agentx_replay.endpoint.kernel_stamps import Timestamps
    from agentx_replay.endpoint.settings import EndpointSettings
    from agentx_replay.experiment.fleet import Fleet
    from agentx_replay.simulator.engine import EngineModel


@contextmanager
def open_target(settings: Settings) -> Iterator[Target]:
    """Make the target ready to measure; the simulator lives as long as the context.

    Raises ``UsageError`` with exit code 3 for a server that cannot be measured.
    """
    raise_open_files()
    if settings.virtual:
        yield in_process_target()
    elif not settings.url:
        from agentx_replay.simulator.engine import DEMO_ENGINE

        with _simulator(DEMO_ENGINE) as url:
            facts = {"kind": "built-in simulator", "engine": asdict(DEMO_ENGINE)}
            yield _servers(settings, (url,), facts)
    elif settings.ray is not None:
        with open_machines(settings) as machines:
            target = _servers(settings, settings.url, {"kind": "server"})
            yield replace(target, machines=machines)
    else:
        yield _servers(settings, settings.url, {"kind": "server"})


@contextmanager
def open_machines(settings: Settings) -> "Iterator[Fleet]":
    """Give an agent on each client machine. Raises ``UsageError``, before anything is asked of the
    cluster if it would be reached without protection.
    """
    asked = [_endpoint_settings(settings, url) for url in settings.url]
    if not settings.insecure_ray:
        secret = any(each.secrets for each in asked) and settings.nodes != 1
        refuse_unprotected(str(settings.ray), os.environ, secret=secret)
    try:
        from agentx_replay.experiment.ray_nodes import ray_machines
    except ModuleNotFoundError:
        raise UsageError(
            "ray-missing",
            "--ray needs Ray, which is not installed",
            "pip install 'agentx-replay[ray]', on every machine",
        ) from None
    import uvloop

    from agentx_replay.endpoint.url import is_loopback
    from agentx_replay.experiment.fleet import meet

    with ray_machines(str(settings.ray), settings.nodes) as machines:
        if len(machines.addresses) > 1 and any(is_loopback(each.url) for each in asked):
            raise UsageError(
                "ray-with-loopback-url",
                "--url is an address of this machine alone, and "
                f"{len(machines.addresses)} machines are to reach the server",
                "name the server as all of them do",
            )
        fleet = uvloop.run(meet(machines, insecure=settings.insecure_ray))
        try:
            yield fleet
        finally:
            uvloop.run(fleet.close())


def refuse_unprotected(address: str, environment: Mapping[str, str], *, secret: bool) -> None:
    """Raise ``UsageError`` for a Ray cluster that anybody who reaches it may use, and for one over
    whose wires a secret would go in clear.
    """
    way_out = "give --insecure-ray if nobody else reaches these machines"
    if environment.get("RAY_AUTH_MODE") != "token":
        raise UsageError(
            "ray-without-token",
            f"RAY_AUTH_MODE is not token, and whoever reaches the Ray cluster at {address} could "
            "run code on its machines",
            "start it and this with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE (mode 0600) "
            f"set, or {way_out}",
        )
    if secret and environment.get("RAY_USE_TLS") != "1":
        raise UsageError(
            "ray-secret-in-clear",
            "the server's API key would go to other machines unencrypted",
            f"start the cluster and this with RAY_USE_TLS=1 and its certificates, or {way_out}",
        )


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
def _simulator(engine: "EngineModel") -> Iterator[str]:
    from agentx_replay.simulator.process import launch_simulator
    from agentx_replay.simulator.server import ServerConfig

    process = launch_simulator(ServerConfig(engine=engine))
    try:
        yield process.url
    finally:
        process.close()


def _servers(settings: Settings, urls: tuple[str, ...], facts: dict[str, Any]) -> Target:
    import uvloop

    from agentx_replay.endpoint.client import open_client
    from agentx_replay.endpoint.replicas import open_replicas
    from agentx_replay.endpoint.url import refuse_twice
    from agentx_replay.experiment.replicas import (
        ask_replicas,
        replica_pages,
        replica_warnings,
        replicas_facts,
    )

    asked = [_endpoint_settings(settings, url) for url in urls]
    refuse_twice("--url", [each.url for each in asked])
    names = [str(each.url) for each in asked]
    told = uvloop.run(ask_replicas(asked))
    first, *others = (
        replace(
            each,
            model=one.model,
            max_tokens_field=one.max_tokens_field,
            refused_fields=one.refused_fields,
        )
        for each, one in zip(asked, told, strict=True)
    )
    servers = (first, *others)
    pages = uvloop.run(replica_pages(settings.metrics_url, servers))
    facts_told, unlike = uvloop.run(replicas_facts(servers, pages)) if settings.system else ({}, ())
    limits = [one.max_model_len for one in told if one.max_model_len is not None]
    what = {"url": names if others else names[0], "metrics": [page.name for page in pages]}
    return Target(
        open=partial(open_replicas, servers) if others else partial(open_client, first),
        facts=facts | asdict(told[0]) | what,
        warnings=(*told[0].warnings(), *replica_warnings(servers, told), *unlike),
        max_context=min(limits, default=None),
        secrets=first.secrets,
        endpoint=first,
        timestamps=first.timestamps or "process",
        replicas=tuple(others),
        metrics=pages,
        told=facts_told,
    )


def told_system(settings: Settings, exporters: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of the system that the one server of the settings and GPU ``exporters``
    tell.

    Raises ``UsageError`` (exit code 3) where one tells nothing.
    """
    import uvloop

    from agentx_replay.experiment.asked_facts import asked_facts, exporters_facts
    from agentx_replay.experiment.server_metrics import metrics_pages

    async def told(server: "EndpointSettings") -> dict[str, Any]:
        pages = await metrics_pages(settings.metrics_url, server)
        found = await exporters_facts(exporters, server) if exporters else {}
        return found | await asked_facts(server, pages)

    found = uvloop.run(told(_endpoint_settings(settings, settings.url[0])))
    if not found:
        raise UsageError(
            "server-tells-nothing",
            f"{without_credentials(settings.url[0])} tells nothing of itself",
            "check --url, and that the server is up",
            exit_code=3,
        )
    return found


def _endpoint_settings(settings: Settings, url: str) -> "EndpointSettings":
    from agentx_replay.endpoint.settings import EndpointSettings, TlsSettings
    from agentx_replay.endpoint.url import parse_base_url, refuse_proxy

    base = parse_base_url(url)
    refuse_proxy(base)
    return EndpointSettings(
        url=base,
        model=settings.model or "",
        api_key=os.environ.get(settings.api_key_env) or None,
        api_key_env=settings.api_key_env,
        extra_body=_body(settings.body),
        extra_headers=tuple(_header(header) for header in settings.header),
        session_headers=settings.session_headers,
        api=settings.endpoint,
        tls=TlsSettings(str(settings.ca_file) if settings.ca_file else None, settings.insecure),
        keepalive_s=settings.keepalive,
        timeout_s=settings.timeout,
        wait_s=settings.wait,
        timestamps=timestamps_of(settings.timestamps),
        keeps_answers=settings.live_history,
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
