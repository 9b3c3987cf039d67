"""Fetching servers' metrics pages once a second beside a run, without disturbing it.

Pages travel over connections of their own. What has come is handed on in slices of a few hundred
lines, so that the loop is back at its sockets in between. A page that does not answer in time
leaves a gap, never a failure.
Not for: knowing what the lines mean (``results/server_metrics.py``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.connect_error import ConnectError
from agentx_replay.endpoint.connection import Ending
from agentx_replay.endpoint.requests import head_start
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import BaseUrl, parse_base_url
from agentx_replay.errors import UsageError
from agentx_replay.replay.ports import Clock

EVERY_S = 1.0
_TIMEOUT_S = 5.0
_SLICE_LINES = 200
_STREAM = "metrics"
_OK = 200

Keep = Callable[[str, int, list[str]], None]
"""Takes a page's name, the instant (ns of the clock) its answer had come, and some of its lines."""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """One page: how to ask for it, and the texts that it must not bring in. Its name is its URL."""

    settings: EndpointSettings
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Return the URL; it holds no user name or password."""
        return str(self.settings.url)


def server_page(server: EndpointSettings) -> MetricsPage:
    """Return the page that engines serve: ``/metrics`` at the root of the server."""
    return MetricsPage(replace(server, url=replace(server.url, path="/metrics")), server.secrets)


def second_page(page: MetricsPage) -> MetricsPage | None:
    """Return where an engine that serves another thing at ``/metrics`` has the page: trtllm-serve
    has JSON there. None for a page at a path of its own.
    """
    settings = page.settings
    if settings.url.path != "/metrics":
        return None
    url = replace(settings.url, path="/prometheus/metrics")
    return MetricsPage(replace(settings, url=url), page.secrets)


def page_url(text: str) -> BaseUrl:
    """Return the page that ``--metrics-url`` names; with no path, ``/metrics`` is meant.

    Raises ``UsageError``.
    """
    try:
        base = parse_base_url(text)
    except UsageError as error:
        raise UsageError(
            "metrics-url-unfit",
            error.what,
            "give --metrics-url as http://HOST:PORT/metrics; a page on the server itself is sent "
            "its key and headers, others none",
        ) from None
    return replace(base, path="/metrics") if base.path == "/v1" else base


def page_at(url: str, server: EndpointSettings) -> MetricsPage:
    """Return the page at a URL of its own, as ``page_url`` reads it.

    The API key and the extra headers go only where the server itself is. Raises ``UsageError``.
    """
    base = page_url(url)
    if base.authority == server.url.authority and base.scheme == server.url.scheme:
        return MetricsPage(replace(server, url=base), server.secrets)
    settings = replace(server, url=base, api_key=None, extra_headers=())
    return MetricsPage(settings, server.secrets)


async def fetch(
    client: Client, page: MetricsPage, timeout_s: float = _TIMEOUT_S
) -> list[str] | None:
    """Return the lines of a page; None where it does not answer with a whole one in time.

    Half a page is none: its last number may lack digits.
    """
    request = head_start(page.settings, "GET", "") + b"\r\n"
    try:
        async with asyncio.timeout(timeout_s):
            exchange = await client.exchange(_STREAM, request, streamed=False)
    except (ConnectError, TimeoutError):
        return None
    body = exchange.body
    if exchange.http_status != _OK or body is None or body.too_large:
        return None
    if exchange.ending is not Ending.COMPLETE or body.malformed is not None:
        return None
    return body.text.decode("utf-8", "replace").split("\n")


async def lines_of(page: MetricsPage) -> list[str] | None:
    """Return the lines of a page, asked for once; None where it does not answer."""
    client = Client(page.settings)
    try:
        return await fetch(client, page)
    finally:
        await client.close()


@asynccontextmanager
async def scraping(
    pages: Sequence[MetricsPage], clock: Clock, keep: Keep, timeout_s: float = _TIMEOUT_S
) -> AsyncIterator[None]:
    """Fetch every page each second while the context is open, and hand its lines to ``keep``."""
    tasks = [asyncio.create_task(_scrape(page, clock, keep, timeout_s)) for page in pages]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _scrape(page: MetricsPage, clock: Clock, keep: Keep, timeout_s: float) -> None:
    client = Client(page.settings)
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    try:
        while True:
            lines = await fetch(client, page, timeout_s) or []
            at_ns = clock.now_ns()
            for start in range(0, len(lines), _SLICE_LINES):
                keep(page.name, at_ns, lines[start : start + _SLICE_LINES])
                await asyncio.sleep(0)
            next_s = max(next_s + EVERY_S, loop.time())
            await asyncio.sleep(next_s - loop.time())
    finally:
        await client.close()
