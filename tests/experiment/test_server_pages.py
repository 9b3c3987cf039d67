"""Which metrics pages are scraped, and that what they say is on record with the level."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from refusals import refuses

from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.server_metrics import metrics_pages, recorded_metrics
from agentx_replay.replay.clock import real_clock
from agentx_replay.results.layout import Measurement
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.server_metrics import read_server_metrics

KNOWN = "# HELP x\nvllm:num_requests_running 3\npython_info 1\n"


@asynccontextmanager
async def engine(pages: dict[str, str]) -> AsyncIterator[tuple[EndpointSettings, asyncio.Event]]:
    """A server of these pages, 404 elsewhere; the event is set at the third request, by which
    a page that is first looked at and then scraped has been read once."""
    asked_again = asyncio.Event()
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                asked += 1
                if asked == 3:
                    asked_again.set()
                body = pages.get(head.split()[1].decode())
                status = "404 Not Found" if body is None else "200 OK"
                text = body or ""
                answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}"
                writer.write(answer.encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield EndpointSettings(parse_base_url(f"http://127.0.0.1:{port}"), "m"), asked_again
    finally:
        server.close()


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        ({"/metrics": KNOWN}, 1),
        ({"/metrics": "python_info 1\n"}, 0),
        ({}, 0),
        ({"/metrics": "[{}]", "/prometheus/metrics": KNOWN}, 1),  # trtllm-serve: JSON at the first
    ],
)
def test_unasked_the_servers_own_page_is_taken_where_it_tells_something(
    pages: dict[str, str], found: int
) -> None:
    async def main() -> int:
        async with engine(pages) as (server, _):
            return len(await metrics_pages((), server))

    assert asyncio.run(main()) == found


def test_a_page_that_was_asked_for_must_tell_something() -> None:
    async def main() -> None:
        async with engine({"/metrics": "python_info 1\n"}) as (server, _):
            await metrics_pages((f"http://{server.url.authority}",), server)

    with refuses("metrics-unknown") as raised:
        asyncio.run(main())
    assert raised.value.exit_code == 3


def test_what_was_scraped_is_on_record_since_the_origin(tmp_path: Path) -> None:
    async def main() -> int:
        async with engine({"/other": KNOWN}) as (server, asked_again):
            pages = await metrics_pages((f"http://{server.url.authority}/other",), server)
            with real_clock(asyncio.get_running_loop()) as clock:
                origin_ns = clock.now_ns()
                recorder = Recorder(tmp_path, Measurement(8), origin_ns=origin_ns)
                async with recorded_metrics(pages, clock, recorder):
                    await asked_again.wait()
                recorder.close()
                return clock.now_ns() - origin_ns

    took_ns = asyncio.run(main())
    rows = read_server_metrics(tmp_path).to_pylist()
    assert rows
    assert {(row["concurrency"], row["metric"], row["value"]) for row in rows} == {
        (8, "running", 3.0)
    }
    assert all(0 <= row["at_ns"] <= took_ns for row in rows)
