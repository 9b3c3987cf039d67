"""What a stream said, and of how many tokens: kept only where it is to be fed back."""

from typing import Any

import pytest
from client_cases import client_of, dispatch
from scripted_server import DONE, HEAD, WHOLE, Answer, Move, chunk, event, scripted, token, usage
from stamped_stream import StampedStream

from agentx_replay.endpoint.completion_stream import ParsedStream
from agentx_replay.prompts.prompt import Answer as Said
from agentx_replay.replay.ports import Status


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def used(completion: int | None, prompt: int = 9) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt} | (
        {} if completion is None else {"completion_tokens": completion}
    )
    return {"choices": [], "usage": usage}


def read(sink: StampedStream, *chunks: dict[str, Any]) -> ParsedStream:
    """Event k arrives at 10·(k + 1) ns."""
    for place, each in enumerate(chunks):
        sink.feed(event(each), 10 * (place + 1))
    sink.feed(DONE, 1_000)
    sink.end()
    return sink.result()


@pytest.mark.parametrize(
    ("chunks", "answer"),
    [
        pytest.param(
            [delta(role="assistant", content=""), delta(content=" a"), delta(content="b"), used(2)],
            Said(" ab", 2, 9),
            id="the deltas' content, joined",
        ),
        pytest.param(
            [
                delta(role="assistant", content="a"),
                delta(finish="length", content=" \u00e9\n"),
                used(2),
            ],
            Said("a \u00e9\n", 2, 9),
            id="beside a role and beside a finish",
        ),
        pytest.param(
            [delta(content=" four tokens in two"), delta(content=" events"), used(4)],
            Said(" four tokens in two events", 4, 9),
            id="several tokens an event",
        ),
        pytest.param(
            [delta(reasoning_content="hm"), delta(reasoning="so"), delta(content="a"), used(3)],
            Said("a", 1, 9, whole=False),
            id="reasoning left out, and its two events of three",
        ),
        pytest.param(
            [delta(tool_calls=[{"index": 0}]), delta(content="a"), used(2)],
            Said("a", 1, 9, whole=False),
            id="tool calls left out",
        ),
        pytest.param(
            [delta(content="a"), delta(content=""), delta(content="b"), used(3)],
            Said("ab", 3, 9),
            id="an event without text is half a character",
        ),
        pytest.param(
            [delta(content="a", reasoning="hm"), delta(content="b"), used(4)],
            Said("ab", 4, 9, whole=False),
            id="reasoning beside content",
        ),
        pytest.param([delta(reasoning="a"), used(1)], None, id="nothing but reasoning"),
        pytest.param([delta(content=""), delta(content=""), used(2)], None, id="no text"),
        pytest.param([delta(content="a"), used(None)], None, id="tokens not counted"),
        pytest.param([delta(content="a")], None, id="no usage"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_an_answer_is_the_content_and_its_share_of_the_tokens(
    chunks: list[dict[str, Any]], answer: Said | None
) -> None:
    assert read(StampedStream(keeps_answer=True), *chunks).answer == answer


def test_measuring_alone_keeps_nothing_that_was_said() -> None:
    assert read(StampedStream(), delta(content="a"), used(1)).answer is None


def test_what_is_measured_is_the_same_beside_an_answer() -> None:
    chunks = [delta(role="assistant"), delta(reasoning="a"), delta(content="b"), used(2)]
    plain, kept = read(StampedStream(), *chunks), read(StampedStream(keeps_answer=True), *chunks)
    assert kept.arrival_ns.tolist() == plain.arrival_ns.tolist() == [20, 30]
    assert (kept.prompt_tokens, kept.completion_tokens, kept.done) == (9, 2, True)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", Said("a", 1, 9)),
        (b'{"choices": 7}', Said("a", 1, 9)),
        (b'{"choices": [{"delta": {"content": 7}}]}', Said("a", 1, 9, whole=False)),
        (b"{nonsense", None),
        (b'"text"', Said("a", 1, 9)),
        (b'{"error": {"message": "no"}}', None),
    ],
)
def test_what_is_no_chunk_says_nothing(data: bytes, answer: Said | None) -> None:
    sink = StampedStream(keeps_answer=True)
    sink.feed(event(delta(content="a")), 10)
    sink.feed(b"data: " + data + b"\n\n", 20)
    assert read(sink, used(1)).answer == answer


@pytest.mark.parametrize(
    ("halves", "text"),
    [
        ((rb"a\ud83d", rb"\ude00b"), "a\U0001f600b"),
        ((rb"a\ud83d", b"b"), "a\ufffdb"),
    ],
)
def test_halves_of_an_emoji_are_joined_and_one_alone_is_replaced(
    halves: tuple[bytes, bytes], text: str
) -> None:
    sink = StampedStream(keeps_answer=True)
    for half in halves:
        sink.feed(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % half, 10)
    assert read(sink, used(2)).answer == Said(text, 2, 9)


def test_an_answer_is_the_same_however_its_bytes_are_cut() -> None:
    whole = event(delta(content=" \u00e9a")) + event(delta(content="b")) + event(used(2)) + DONE
    for cut in range(len(whole)):
        sink = StampedStream(keeps_answer=True)
        sink.feed(whole[:cut], 10)
        sink.feed(whole[cut:], 20)
        sink.end()
        assert sink.result().answer == Said(" \u00e9ab", 2, 9)


def test_many_events_alike_are_all_said() -> None:
    chunks = [delta(content=f" {number}") for number in range(50)]
    said = " " + " ".join(map(str, range(50)))
    assert read(StampedStream(keeps_answer=True), *chunks, used(50)).answer == Said(said, 50, 9)


@pytest.mark.parametrize(("keeps", "answer"), [(True, Said("ab", 2, 5)), (False, None)])
async def test_a_client_keeps_answers_where_it_is_told_to(keeps: bool, answer: Said | None) -> None:
    async with scripted([WHOLE]) as server, client_of(server, keeps_answers=keeps) as client:
        response = await client.send(dispatch())
    assert response.answer == answer


async def test_a_response_that_failed_has_no_answer() -> None:
    broken: Answer = [HEAD, chunk(token("a") + usage(5, 1)), Move.CLOSE]
    async with scripted([broken]) as server, client_of(server, keeps_answers=True) as client:
        response = await client.send(dispatch())
    assert response.status is Status.FAILED
    assert response.answer is None
