"""Dispatches and responses with few words, for tests of what is recorded and computed."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from agentx_replay.analysis.responses import Events, Records, records_of
from agentx_replay.prompts.prompt import Prompt
from agentx_replay.replay.ports import Dispatch, Phase, Response, Status
from agentx_replay.results.rows import request_batch, request_row

_numbers = itertools.count()
SECOND = 1_000_000_000
MS = 1_000_000


def prompt(tokens: int, reusable_tokens: int = 0) -> Prompt:
    return Prompt(tokens, reusable_tokens, np.empty(0, np.uint64), lambda: b"[]")


def dispatch(**changes: Any) -> Dispatch:
    """A request of lane 0 for 10 tokens, prompt of 100, meant for instant 0; each has its id."""
    usual = Dispatch(
        request_id=f"r-{next(_numbers)}",
        play_id="p",
        stream_id="s",
        concurrency=2,
        lane=0,
        ordinal=0,
        session_id="x",
        stream=0,
        turn=0,
        request_index=0,
        phase=Phase.WINDOW,
        intended_start_ns=0,
        gap_s=0.0,
        recorded_input_tokens=100,
        recorded_output_tokens=10,
        shared_blocks=0,
        max_tokens=10,
        prompt=prompt(100),
    )
    return replace(usual, **changes)


_ARRAYS = (
    ("arrival_ns", np.int64), ("arrival_tokens", np.int32), ("event_text_bytes", np.int32),
)  # fmt: skip


def response(**changes: Any) -> Response:
    """A response sent at 0 that ended well at 1 s; what is said of events may be plain lists."""
    for name, kind in _ARRAYS:
        if changes.get(name) is not None:
            changes[name] = np.array(changes[name], kind)
    usual = Response(
        status=Status.OK,
        send_ns=0,
        end_ns=SECOND,
        prompt_tokens=100,
        completion_tokens=10,
        http_status=200,
    )
    return replace(usual, **changes)


def recorded(pairs: Iterable[tuple[Dispatch, Response]]) -> Records:
    """What the analysis sees of these, without a file in between."""
    rows = [request_row(sent, came, 0) for sent, came in pairs]
    table = pa.Table.from_batches([request_batch(rows)])
    return records_of(lambda names: [table.select(list(names))])


def events_of(records: Records) -> Events:
    """The token events of records that make one batch."""
    (events,) = records.events()
    return events
