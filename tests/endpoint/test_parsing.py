"""Bodies understood between reads: stamps, slices, the bound on what waits."""

import asyncio
import gzip
from collections.abc import Sequence
from itertools import accumulate

import pytest
import uvloop
from scripted_server import DONE, token, usage

from agentx_replay.endpoint.decode import Identity, Inflate
from agentx_replay.endpoint.parsing import (
    LIVE_PARSE_BYTES,
    MAX_TEXT_BYTES,
    Body,
    BodyJob,
    EventSink,
    ParseQueue,
    Segment,
    TextSink,
)


def segment(*reads: tuple[bytes, int], spans: Sequence[int] | None = None) -> Segment:
    """A segment of (bytes, stamp) reads, all body unless ``spans`` says otherwise."""
    raw = b"".join(data for data, _ in reads)
    offsets = list(accumulate(len(data) for data, _ in reads))
    stamps = [stamp for _, stamp in reads]
    return Segment(raw, offsets, stamps, [0, len(raw)] if spans is None else list(spans))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([0, 9], [(b"abc", 1), (b"def", 2), (b"ghi", 3)]),
        ([1, 2, 4, 9], [(b"b", 1), (b"ef", 2), (b"ghi", 3)]),
        ([0, 1, 2, 4, 8, 9], [(b"a", 1), (b"c", 1), (b"d", 2), (b"i", 3)]),
        ([3, 6], [(b"def", 2)]),
        ([1, 8], [(b"bc", 1), (b"def", 2), (b"gh", 3)]),
        ([], []),
    ],
)
def test_each_piece_of_the_body_has_the_stamp_of_the_read_that_it_ended_in(
    spans: list[int], expected: list[tuple[bytes, int]]
) -> None:
    stretch = segment((b"abc", 1), (b"def", 2), (b"ghi", 3), spans=spans)
    assert list(stretch.pieces()) == expected


def test_a_body_is_read_across_segments_and_told_when_closed() -> None:
    async def test() -> None:
        queue = ParseQueue(asyncio.get_running_loop())
        job = BodyJob(Identity(), EventSink())
        text = token("a") + token("b", "length") + usage(5, 2) + DONE
        queue.add(job, segment((text[:30], 7), (text[30:100], 8)))
        queue.add(job, segment((text[100:], 9)))
        assert queue.held_bytes == len(text)
        told: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        job.close(told.set_result, complete=True)
        queue.push(job)
        queue.push(job)
        stream = (await told).stream
        assert stream is not None
        assert stream.arrival_ns.tolist() == [8, 9]
        assert stream.completion_tokens == 2
        assert queue.held_bytes == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())


def test_a_long_live_response_is_read_before_it_ends() -> None:
    async def test() -> None:
        queue = ParseQueue(asyncio.get_running_loop())
        job = BodyJob(Identity(), EventSink())
        event = token("a" * 1000)
        count = LIVE_PARSE_BYTES // len(event) + 1
        for _ in range(count - 1):
            queue.add(job, segment((event, 1)))
        await asyncio.sleep(0)
        assert queue.held_bytes == (count - 1) * len(event)
        queue.add(job, segment((event, 1)))
        while queue.held_bytes:
            await asyncio.sleep(0)
        assert queue.parsed_at_once == 0

    asyncio.run(test())


def test_the_loop_polls_its_sockets_between_slices() -> None:
    """A parse of many slices lets other calls of the loop run in between."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        queue = ParseQueue(loop)
        job = BodyJob(Identity(), EventSink())
        event = token("a" * 100)
        queue.add(job, segment(*[(event, 1)] * 20_000))
        turns = 0
        while queue.held_bytes:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 3

    asyncio.run(test())


def test_bodies_are_read_first_come_first_served() -> None:
    async def test() -> None:
        queue = ParseQueue(asyncio.get_running_loop())
        told: list[str] = []
        for name in ("first", "second"):
            job = BodyJob(Identity(), TextSink())
            queue.add(job, segment((name.encode(), 1)))
            job.close(lambda body: told.append(body.text.decode()), complete=True)
            queue.push(job)
        while len(told) < 2:
            await asyncio.sleep(0)
        assert told == ["first", "second"]

    asyncio.run(test())


def test_beyond_the_bound_a_segment_is_read_at_once_and_counted() -> None:
    async def test() -> None:
        queue = ParseQueue(asyncio.get_running_loop(), limit_bytes=100)
        first, second = (BodyJob(Identity(), EventSink()) for _ in range(2))
        event = token("a")
        assert 50 < len(event) < 100
        queue.add(first, segment((event, 1)))
        assert (queue.held_bytes, queue.parsed_at_once) == (len(event), 0)
        queue.add(second, segment(*[(event, 1)] * 100))
        assert (queue.held_bytes, queue.parsed_at_once) == (len(event), 1)

    asyncio.run(test())


def test_nothing_is_inflated_past_the_bound() -> None:
    """30 MB in one read: the job stops at the bound, so that no more than it is ever held."""
    job = BodyJob(Inflate(gzip=True), TextSink())
    job.add(segment((gzip.compress(b"x" * 30_000_000), 1)))
    bodies: list[Body] = []
    job.close(bodies.append, complete=True)
    while job.step():
        pass
    assert bodies[0].too_large
    assert MAX_TEXT_BYTES < len(bodies[0].text) <= MAX_TEXT_BYTES + 65_536


def test_a_plain_body_is_bounded() -> None:
    sink = TextSink()
    sink.feed(b"x" * MAX_TEXT_BYTES, 1)
    assert not sink.finished
    sink.feed(b"x", 2)
    assert sink.finished
    assert sink.body(complete=False).too_large


def test_responses_that_grow_in_step_do_not_close_their_first_segments_together() -> None:
    """Shares 0.6180, 0.2361, 0.8541, 0.4721 … of 16,384 (multiples of the golden ratio, mod 1):
    of 256 streams that gain 235 bytes a step, at most 5 close a segment at one step."""

    async def test() -> list[int]:
        queue = ParseQueue(asyncio.get_running_loop())
        return [queue.first_segment_bytes() for _ in range(256)]

    sizes = asyncio.run(test())
    assert sizes[:4] == [10_126, 3_868, 13_994, 7_736]
    at_step = [size // 235 for size in sizes]
    assert max(at_step.count(step) for step in at_step) <= 5
