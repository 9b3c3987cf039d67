"""What the last half minute looked like, for the screen. Nothing here reaches a result."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, Recorder, Response, Status
from agentx_replay.units import NS_PER_S

RECENT_S = 30.0
FIRST_LENGTHS = 20
"""How many usage figures are looked at as they come: enough to prove prompt lengths live."""
_MOST_EVENTS = 4096
"""Token events to look at in one go: a fraction of a millisecond."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Rates and shares over the responses that ended in the last 30 s of the window.

    ``failures`` counts every failed request of the window so far by category. ``length_errors``
    are prompt tokens counted less those planned, of the first 20 responses that tell.
    """

    tokens_per_s: float
    itl_p90_s: float | None
    cache_hit: float | None
    ended: int
    failures: tuple[tuple[str, int], ...]
    length_errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What ended at one worker in the last half minute; ``span_s`` is how long that was."""

    span_s: float
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    itls_s: tuple[float, ...]
    ended: int
    failures: tuple[tuple[str, int], ...]
    length_errors: tuple[int, ...]


def snapshot_of(glimpses: Sequence[Glimpse]) -> Snapshot:
    """Return what all workers together saw."""
    prompt_tokens = sum(each.prompt_tokens for each in glimpses)
    cached_tokens = sum(each.cached_tokens for each in glimpses)
    itls_s = [itl_s for each in glimpses for itl_s in each.itls_s]
    failures: Counter[str] = Counter()
    for each in glimpses:
        failures.update(dict(each.failures))
    span_s = max((each.span_s for each in glimpses), default=1.0)
    return Snapshot(
        tokens_per_s=sum(each.tokens for each in glimpses) / span_s,
        itl_p90_s=float(np.percentile(itls_s, 90)) if itls_s else None,
        cache_hit=cached_tokens / prompt_tokens if prompt_tokens else None,
        ended=sum(each.ended for each in glimpses),
        failures=tuple(sorted(failures.items())),
        length_errors=tuple(error for each in glimpses for error in each.length_errors),
    )


class _Ended(NamedTuple):
    """What is kept of a response for half a minute."""

    end_ns: int
    tokens: int
    prompt_tokens: int
    cached_tokens: int

    @classmethod
    def of(cls, response: Response) -> "_Ended":
        prompt, cached = response.prompt_tokens or 0, response.cached_tokens or 0
        tokens = prompt + (response.completion_tokens or 0)
        return cls(response.end_ns, tokens, prompt, cached if cached <= prompt else 0)


class Recent:
    """A recorder that passes everything on and remembers the last half minute.

    ``itls_s`` returns the response ITLs of responses in s; it is asked for some responses at a
    time, between looks once for every ``_MOST_EVENTS`` token events.
    """

    def __init__(
        self,
        recorder: Recorder,
        itls_s: Callable[[Sequence[Response]], Sequence[float]],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._recorder = recorder
        self._itls_of = itls_s
        self._now_ns = now_ns
        self._unmeasured: list[Response] = []
        self._unmeasured_events = 0
        self._itls_s: deque[tuple[int, float]] = deque()
        self._first_end_ns: int | None = None
        self._ended: deque[_Ended] = deque()
        self._count = 0
        self._failures: Counter[str] = Counter()
        self._length_errors: list[int] = []

    def record(self, dispatch: Dispatch, response: Response) -> None:
        self._recorder.record(dispatch, response)
        if response.prompt_tokens is not None and len(self._length_errors) < FIRST_LENGTHS:
            self._length_errors.append(response.prompt_tokens - dispatch.prompt.tokens)
        if dispatch.phase is not Phase.WINDOW:
            return
        self._count += 1
        if self._first_end_ns is None:
            self._first_end_ns = response.end_ns
        if response.status is Status.OK:
            self._ended.append(_Ended.of(response))
            self._unmeasured.append(response)
            self._unmeasured_events += len(response.arrival_ns)
            if self._unmeasured_events >= _MOST_EVENTS:
                self._measure()
        elif response.error_category is not None:
            self._failures[response.error_category] += 1
        self._forget()

    def record_play(self, play: PlayRecord) -> None:
        self._recorder.record_play(play)

    def glimpse(self) -> Glimpse:
        """Return the last half minute, or the window so far where it is younger."""
        self._measure()
        self._forget()
        begun_ns = self._first_end_ns if self._first_end_ns is not None else self._now_ns()
        return Glimpse(
            span_s=min(RECENT_S, max(1.0, (self._now_ns() - begun_ns) / NS_PER_S)),
            tokens=sum(ended.tokens for ended in self._ended),
            prompt_tokens=sum(ended.prompt_tokens for ended in self._ended),
            cached_tokens=sum(ended.cached_tokens for ended in self._ended),
            itls_s=tuple(itl_s for _, itl_s in self._itls_s),
            ended=self._count,
            failures=tuple(self._failures.items()),
            length_errors=tuple(self._length_errors),
        )

    def _measure(self) -> None:
        """Take the ITLs of what ended since the last time; they are as old as its last response."""
        if self._unmeasured:
            end_ns = self._unmeasured[-1].end_ns
            self._itls_s += [(end_ns, itl_s) for itl_s in self._itls_of(self._unmeasured)]
            self._unmeasured, self._unmeasured_events = [], 0

    def _forget(self) -> None:
        horizon_ns = self._now_ns() - round(RECENT_S * NS_PER_S)
        while self._ended and self._ended[0].end_ns < horizon_ns:
            self._ended.popleft()
        while self._itls_s and self._itls_s[0][0] < horizon_ns:
            self._itls_s.popleft()
