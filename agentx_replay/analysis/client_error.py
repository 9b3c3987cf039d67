"""The client's own error, from what it saw and when each token had really left.

Pure: who drives the load is ``experiment/ceiling.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agentx_replay.analysis.client_lag import Timestamps
from agentx_replay.analysis.findings import MAX_CPU_SHARE, MAX_SHIFT
from agentx_replay.units import NS_PER_S

MIN_ACHIEVED_SHARE = 0.97
"""Of the planned tokens/s, by the server's own log; below it the server was not fast enough."""

Stamps = tuple[int, NDArray[np.int64]]
"""One response on one side: when its request was there, and each of its tokens, in ns."""


@dataclass(frozen=True, slots=True)
class Load:
    """``streams`` at once, each with ``rate`` tokens/s for ``seconds``.

    In a ``burst`` all streams' tokens are due at the same instants, as after an engine's step;
    else they are spread evenly. ``timestamps`` is who takes the client's.
    """

    streams: int
    rate: float
    seconds: float
    burst: bool
    timestamps: Timestamps

    @property
    def every_ns(self) -> int:
        """The gap between a stream's tokens."""
        return round(NS_PER_S / self.rate)

    @property
    def tokens(self) -> int:
        """Tokens a stream, at least two."""
        return max(2, round(self.seconds * self.rate))

    def first_token_ns(self, base_ns: int, stream: int) -> int:
        """When a stream's first token is due."""
        return base_ns if self.burst else base_ns + self.every_ns * stream // self.streams


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a load; times in seconds, shares of 1.

    ``stamp_error_*`` is how long after a token left the client stamped it; ``ttft_error_*`` how
    much longer its TTFT is than the server's own; ``itl_error`` how far its P90 response ITL is
    from the truth, relatively. ``tokens_per_s`` is what came, ``planned_tokens_per_s`` what was
    asked. ``failed`` counts responses that did not end well; with any, the errors are None.
    ``late_event_share`` is of the tokens: whose timestamp the client itself calls an upper bound.
    """

    streams: int
    burst: bool
    planned_tokens_per_s: float
    tokens_per_s: float
    cpu_us_per_token: float
    cpu_share: float
    failed: int
    stamp_error_p50_s: float | None = None
    stamp_error_p99_s: float | None = None
    stamp_error_p999_s: float | None = None
    ttft_error_p50_s: float | None = None
    ttft_error_p99_s: float | None = None
    itl_error: float | None = None
    late_event_share: float = 0.0
    timestamps: Timestamps = "process"

    @property
    def limits(self) -> tuple[str, ...]:
        """Why this load is more than can be driven honestly; empty where it is not."""
        told = []
        if self.failed:
            told.append(f"{self.failed} of {self.streams} responses failed")
        if self.itl_error is not None and self.itl_error > MAX_SHIFT:
            told.append(f"the P90 ITL was {self.itl_error:.1%} off (limit {MAX_SHIFT:.1%})")
        if self.cpu_share > MAX_CPU_SHARE:
            told.append(f"the client used {self.cpu_share:.0%} of a core")
        if self.tokens_per_s < MIN_ACHIEVED_SHARE * self.planned_tokens_per_s:
            sent = f"{self.tokens_per_s:,.0f} of {self.planned_tokens_per_s:,.0f} tok/s"
            told.append(f"the server of this check sent {sent}: its limit, maybe not the client's")
        return tuple(told)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most streams that one process drove honestly, and why not more.

    ``limits`` say what was too much with twice as many, tried twice; they are empty where nothing
    was, and ``ended`` says why no more were tried.
    """

    streams: int
    limits: tuple[str, ...] = ()
    ended: str | None = None
    timestamps: Timestamps = "process"


def compare(
    load: Load,
    seen: Sequence[Stamps],
    truth: Sequence[Stamps],
    *,
    failed: int,
    cpu_share: float,
    late_events: int = 0,
) -> Driven:
    """Compare what a client saw with the truth, stream by stream in the same order.

    ``seen`` has send and arrivals of each response, ``truth`` when the server had the request and
    when it wrote each token. ``cpu_share`` is of the time in which tokens came; ``late_events`` of
    them have a timestamp that is only an upper bound.
    """
    sent = [stamps for _, stamps in truth]
    tokens_per_s = sum(NS_PER_S * (len(s) - 1) / int(s[-1] - s[0]) for s in sent)
    known = Driven(
        streams=load.streams,
        burst=load.burst,
        planned_tokens_per_s=load.streams * load.rate,
        tokens_per_s=tokens_per_s,
        cpu_us_per_token=cpu_share * 1e6 / tokens_per_s,
        cpu_share=cpu_share,
        failed=failed,
        late_event_share=late_events / sum(map(len, sent)),
        timestamps=load.timestamps,
    )
    if failed:
        return known
    arrivals = [stamps for _, stamps in seen]
    stamp_error_s = (np.concatenate(arrivals) - np.concatenate(sent)) / NS_PER_S
    ttft_s = np.array([stamps[0] - send_ns for send_ns, stamps in seen]) / NS_PER_S
    true_ttft_s = np.array([stamps[0] - received_ns for received_ns, stamps in truth]) / NS_PER_S
    p50, p99, p999 = np.percentile(stamp_error_s, (50, 99, 99.9)).tolist()
    ttft_p50, ttft_p99 = np.percentile(ttft_s - true_ttft_s, (50, 99)).tolist()
    return replace(
        known,
        stamp_error_p50_s=p50,
        stamp_error_p99_s=p99,
        stamp_error_p999_s=p999,
        ttft_error_p50_s=ttft_p50,
        ttft_error_p99_s=ttft_p99,
        itl_error=abs(_p90_itl_ns(arrivals) / _p90_itl_ns(sent) - 1.0),
    )


def _p90_itl_ns(stamps: list[NDArray[np.int64]]) -> float:
    return float(np.percentile([(s[-1] - s[0]) / (len(s) - 1) for s in stamps], 90))
