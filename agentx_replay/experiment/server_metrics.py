"""Which servers' metrics go on record with a level, and getting them there."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from agentx_replay.endpoint.scrape import (
    MetricsPage,
    lines_of,
    page_at,
    scraping,
    second_page,
    server_page,
)
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import Clock
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.schema import SERVER
from agentx_replay.results.server_metrics import ServerSamples, known_samples

_UNUSABLE = 3


async def metrics_pages(urls: Sequence[str], server: EndpointSettings) -> tuple[MetricsPage, ...]:
    """Return the pages to scrape: those at ``urls``; with none given the server's own, if any.

    Raises ``UsageError`` (exit code 3) for a URL that gives no metric of a known engine.
    """
    if not urls:
        own = await _known(server_page(server))
        return (own,) if own is not None else ()
    pages = []
    for page in (page_at(url, server) for url in urls):
        known = await _known(page)
        if known is None:
            raise UsageError(
                "metrics-unknown",
                f"{page.name} answers with no metric of a known engine",
                "check --metrics-url, and that the engine was started with its metrics on",
                exit_code=_UNUSABLE,
            )
        pages.append(known)
    return tuple(pages)


async def _known(page: MetricsPage) -> MetricsPage | None:
    """Return the page, or the second place to look for it, that tells a known metric; None where
    neither does.
    """
    for each in (page, second_page(page)):
        if each is not None and any(known_samples(await lines_of(each) or [])):
            return each
    return None


@asynccontextmanager
async def recorded_metrics(
    pages: Sequence[MetricsPage], clock: Clock, recorder: Recorder
) -> AsyncIterator[None]:
    """Scrape once before the context opens and each second while it is open."""
    secrets = {secret for page in pages for secret in page.secrets}
    samples = ServerSamples(partial(recorder.append, SERVER), secrets)
    # Before the first request: what the counters say later is what the level added.
    first = await asyncio.gather(*map(lines_of, pages))
    for page, lines in zip(pages, first, strict=True):
        samples.add(page.name, clock.now_ns(), lines or [])
    async with scraping(pages, clock, samples.add):
        yield
