"""Which servers' metrics go on record with a level, and getting them there."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

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
from agentx_replay.experiment.keeping import kept_in_parts
from agentx_replay.replay.ports import Clock
from agentx_replay.results.layout import Measurement, server_file, server_parts
from agentx_replay.results.sample_parts import SampleParts, compact_samples
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
    pages: Sequence[MetricsPage], clock: Clock, origin_ns: int, point: Path, of: Measurement
) -> AsyncIterator[None]:
    """Scrape once before the context opens and each second while it is open; the samples are parts
    on disk within seconds, and ``server.parquet`` of the point at its end.

    Raises ``UsageError`` where the disk refuses.
    """
    if not pages:
        yield
        return
    samples = ServerSamples({secret for page in pages for secret in page.secrets})

    def keep(endpoint: str, at_ns: int, lines: list[str]) -> None:
        for series, value in known_samples(lines):
            samples.add(endpoint, at_ns - origin_ns, series, value)

    # Before the first request: what the counters say later is what the level added.
    first = await asyncio.gather(*map(lines_of, pages))
    for page, lines in zip(pages, first, strict=True):
        keep(page.name, clock.now_ns(), lines or [])
    parts = SampleParts(server_parts(point), SERVER)
    async with (
        kept_in_parts(parts, lambda: samples.take(*of)),
        scraping(pages, clock, keep),
    ):
        yield
    compact_samples(server_file(point), server_parts(point), SERVER)
