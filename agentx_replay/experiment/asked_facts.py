"""Asking a server and exporters for the facts of the system that they know."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from agentx_replay.analysis.told_facts import (
    SERVED_AS,
    facts_of_exporter,
    facts_of_info,
    facts_of_metrics,
    facts_of_models,
)
from agentx_replay.endpoint.readiness import models_in
from agentx_replay.endpoint.scrape import MetricsPage, lines_of, page_at
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.errors import UsageError

_PAGES = ("/server_info?config_format=json", "/get_server_info", "/version", "/props")
"""vLLM's in its development mode and SGLang's, SGLang's older, vLLM's version, llama.cpp's."""
_UNUSABLE = 3


async def asked_facts(server: EndpointSettings, metrics: Sequence[MetricsPage]) -> dict[str, Any]:
    """Return the facts that a server tells, by their keys; a page that it lacks tells none."""
    pages = [_page(server, path) for path in (f"{server.url.path}/models", *_PAGES)]
    told = await asyncio.gather(*map(lines_of, (*pages, *metrics)))
    models, *info = map(_json, told[: len(pages)])
    served = [server.model] if server.model else [each.id for each in models_in(models)]
    found = {"model": served[0], SERVED_AS: served[0]} if len(served) == 1 else {}
    for each in info:
        found |= facts_of_info(each)
    # Of the KV cache the metrics tell all engines, a page of JSON one.
    found |= facts_of_metrics(line for lines in told[len(pages) :] for line in lines or ())
    return found | facts_of_models(models)


async def exporters_facts(urls: Sequence[str], server: EndpointSettings) -> dict[str, Any]:
    """Return what exporters tell of the GPUs. Raises ``UsageError`` for one that tells nothing."""
    pages = [page_at(url, server) for url in urls]
    told = await asyncio.gather(*map(lines_of, pages))
    for page, lines in zip(pages, told, strict=True):
        if not facts_of_exporter(lines or []):
            raise UsageError(
                "exporter-unknown",
                f"{page.name} answers with no metric of a known GPU exporter",
                "check the URL: dcgm-exporter has port 9400, AMD's device-metrics-exporter 5000",
                exit_code=_UNUSABLE,
            )
    return facts_of_exporter(line for lines in told for line in lines or ())


def _page(server: EndpointSettings, path: str) -> MetricsPage:
    return MetricsPage(replace(server, url=replace(server.url, path=path)), server.secrets)


def _json(lines: list[str] | None) -> Any:
    try:
        return orjson.loads("\n".join(lines or ()))
    except orjson.JSONDecodeError:
        return None
