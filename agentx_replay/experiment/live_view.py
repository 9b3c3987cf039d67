"""How a level is going, for the screen: of each of its processes, and of all together.

Response ITL has the definition of the report.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.early import Tallies
from agentx_replay.analysis.latency import present, response_itl
from agentx_replay.analysis.responses import TimedTokens, arrivals_of
from agentx_replay.replay.driver import Progress, Stage
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.replay.ports import Response
from agentx_replay.replay.warmup import Warmed
from agentx_replay.results.recent import Glimpse, Snapshot, snapshot_of
from agentx_replay.units import NS_PER_S

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """How one process's part of a level is going; ``tallies`` are what it may be stopped early by,
    None if nothing is, or before the window.
    """

    progress: Progress
    recent: Glimpse
    load: ClientLoad
    tallies: Tallies | None = None


def together(parts: Sequence[ProgressSnapshot]) -> tuple[Progress, Snapshot, ClientLoad]:
    """Return how a level is going: the slowest stage, the busiest client."""
    all_progress = [part.progress for part in parts]
    lefts_s = [each.left_s for each in all_progress if each.left_s is not None]
    warmed = [astuple(each.warmed) for each in all_progress if each.warmed is not None]
    progress = Progress(
        stage=min((each.stage for each in all_progress), key=list(Stage).index),
        left_s=max(lefts_s, default=None),
        in_flight=sum(each.in_flight for each in all_progress),
        live_plays=sum(each.live_plays for each in all_progress),
        recycled_plays=sum(each.recycled_plays for each in all_progress),
        warmed=Warmed(*map(sum, zip(*warmed, strict=True))) if warmed else None,
    )
    load = ClientLoad(
        cpu_share=max(part.load.cpu_share for part in parts),
        loop_lag_p99_ns=max(part.load.loop_lag_p99_ns for part in parts),
    )
    return progress, snapshot_of([part.recent for part in parts]), load


def live_itls_s(responses: Sequence[Response]) -> list[float]:
    """Return the response ITL in s of each response that has one, in order."""
    if not responses:
        return []
    return list(map(float, present(response_itl(timed(responses)).itl_ns) / NS_PER_S))


def timed(responses: Sequence[Response]) -> TimedTokens:
    """Return what the latencies of one or more responses are made of, in ns since the first send.

    No record is made of the responses, since that takes ten times as long.
    """
    origin_ns = responses[0].send_ns
    counts = np.array([len(each.arrival_ns) for each in responses], np.int64)
    at_ns = np.concatenate([each.arrival_ns - origin_ns for each in responses]).astype(np.float64)
    tokens = _of_events([each.arrival_tokens for each in responses], counts)
    text_bytes = _of_events([each.event_text_bytes for each in responses], counts)
    arrivals = arrivals_of(counts, at_ns, tokens, text_bytes, np.zeros(len(counts), bool))
    came, stop = counts > 0, np.cumsum(counts)
    first_ns, last_ns = np.full((2, len(counts)), np.nan)
    first_ns[came], last_ns[came] = at_ns[(stop - counts)[came]], at_ns[(stop - 1)[came]]
    return TimedTokens(
        **vars(arrivals),
        event_counts=counts,
        send_ns=_floats([each.send_ns - origin_ns for each in responses]),
        first_token_ns=first_ns,
        last_token_ns=last_ns,
        end_ns=_floats([each.end_ns - origin_ns for each in responses]),
        completion_tokens=_floats([each.completion_tokens for each in responses]),
        reasoning_tokens=_floats([each.reasoning_tokens for each in responses]),
        reasoning_pieces=_floats([each.reasoning_pieces for each in responses]),
    )


def _floats(values: Sequence[int | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _of_events(values: Sequence[NDArray[np.int32] | None], counts: NDArray[np.int64]) -> Floats:
    """Return the elements, NaN for each event of a response that has none."""
    return np.concatenate(
        [
            np.full(count, np.nan) if each is None else each.astype(np.float64)
            for each, count in zip(values, counts, strict=True)
        ]
    )
