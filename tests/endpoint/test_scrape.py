"""Metrics pages over real sockets: fetched each second, and never in the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from agentx_replay.endpoint.scrape import MetricsPage, lines_of, page_at, scraping, server_page
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.replay.clock import real_clock


def settings(url: str, **more: object) -> EndpointSettings:
    return EndpointSettings(url=parse_base_url(url), model="m", **more)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(answer: Callable[[int], bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server whose n-th answer is what is said; yields its URL and the requests it got."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer(len(heads)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", heads
    finally:
        server.close()


def ok(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_page_is_fetched_from_the_root_of_the_server_with_its_key() -> None:
    async def main() -> tuple[list[str] | None, list[bytes]]:
        async with serving(lambda _: ok("a 1\nb 2\n")) as (url, heads):
            return await lines_of(server_page(settings(url + "/v1", api_key="secret"))), heads

    lines, heads = asyncio.run(main())
    assert lines == ["a 1", "b 2", ""]
    assert heads[0].startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in heads[0]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://other:9000", "http://other:9000/metrics"),
        ("http://other:9000/", "http://other:9000/metrics"),
        ("http://other:9000/prometheus/metrics", "http://other:9000/prometheus/metrics"),
    ],
)
def test_a_page_elsewhere_is_asked_at_its_path_and_never_told_the_key(
    given: str, asked: str
) -> None:
    server = settings("http://here:8000", api_key="secret", extra_headers=(("X-Team", "us"),))
    page = page_at(given, server)
    assert page.name == asked
    assert (page.settings.api_key, page.settings.extra_headers) == (None, ())


def test_a_page_of_the_server_itself_may_need_the_key() -> None:
    page = page_at("http://here:8000/metrics", settings("http://here:8000", api_key="secret"))
    assert page.settings.api_key == "secret"


def test_a_page_that_is_not_there_has_no_lines() -> None:
    async def main() -> tuple[list[str] | None, list[str] | None]:
        async with serving(lambda _: ok("no", "404 Not Found")) as (url, _):
            absent = await lines_of(server_page(settings(url)))
        return absent, await lines_of(server_page(settings(url)))  # now nobody listens

    assert asyncio.run(main()) == (None, None)


def broken(body: bytes, *headers: str) -> bytes:
    """An answer whose head promises more than comes, or something else than comes."""
    return ("\r\n".join(["HTTP/1.1 200 OK", *headers]) + "\r\n\r\n").encode() + body


@pytest.mark.parametrize(
    "answer",
    [
        ok("vllm:num_requests_running 1", "500 Internal Server Error"),
        ok("", "401 Unauthorized"),
        ok("", "302 Found"),
        b"NOT HTTP\r\n\r\n",
        broken(b"\x1f\x8bno gzip at all", "Content-Encoding: gzip", "Content-Length: 16"),
        broken(b"x 1\n" * 1_100_000, "Content-Length: 100000000"),
        broken(b"5\r\nx 123\r\nZZ\r\n", "Transfer-Encoding: chunked"),
    ],
    ids=["500", "401", "302", "no HTTP", "no gzip", "100 MB", "chunks broken off"],
)
def test_a_page_that_is_no_whole_page_has_no_lines(answer: bytes) -> None:
    async def main() -> list[str] | None:
        async with serving(lambda _: answer) as (url, _):
            return await lines_of(server_page(settings(url)))

    assert asyncio.run(main()) is None


def test_a_page_that_breaks_off_has_no_lines_since_its_last_number_may_lack_digits() -> None:
    async def breaks_off(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(broken(b"a 1\nb 12", "Content-Length: 11"))
        writer.close()

    async def main() -> list[str] | None:
        server = await asyncio.start_server(breaks_off, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await lines_of(server_page(settings(f"http://127.0.0.1:{port}")))

    assert asyncio.run(main()) is None


def test_a_page_that_hangs_is_a_gap_and_the_next_answer_is_not_taken_for_it() -> None:
    kept: list[list[str]] = []

    async def main() -> None:
        again = asyncio.Event()

        def keep(_: str, __: int, lines: list[str]) -> None:
            kept.append(lines)
            again.set()

        # The first request is never answered.
        async with serving(lambda n: b"" if n == 1 else ok(f"answer {n}")) as (url, heads):
            with real_clock(asyncio.get_running_loop()) as clock:
                page = server_page(settings(url))
                async with scraping([page], clock, keep, timeout_s=0.2):
                    await again.wait()
            assert len(heads) >= 2

    asyncio.run(main())
    assert kept[0] == ["answer 2"]


def test_lines_come_in_slices_each_with_the_instant_of_its_answer_until_the_end() -> None:
    body = "\n".join(f"m {k}" for k in range(450))
    kept: list[tuple[str, int, list[str]]] = []

    async def main() -> MetricsPage:
        whole = asyncio.Event()

        def keep(name: str, at_ns: int, lines: list[str]) -> None:
            kept.append((name, at_ns, lines))
            if len(kept) == 6:
                whole.set()

        # The second answer fails: a gap, and the third is kept.
        async with serving(lambda n: ok("", "503 Busy") if n == 2 else ok(body)) as (url, _):
            page = server_page(settings(url))
            with real_clock(asyncio.get_running_loop()) as clock:
                async with scraping([page], clock, keep):
                    await whole.wait()
            return page

    page = asyncio.run(main())
    assert [len(lines) for _, _, lines in kept] == [200, 200, 50, 200, 200, 50]
    assert {name for name, _, _ in kept} == {page.name}
    first, second = kept[0][1], kept[3][1]
    assert [at for _, at, _ in kept] == [first] * 3 + [second] * 3
    assert second - first >= 2_000_000_000 - 100_000_000  # two intervals of a second
