"""Where a corpus lies: a few figures of its sessions, to set beside those of others.

``PUBLIC`` are the published figures of the corpus that the official benchmark draws from; a figure
that was not published is None.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentx_replay.traces.model import Corpus, Session
from agentx_replay.traces.statistics import CorpusStatistics, Percentiles


@dataclass(frozen=True, slots=True)
class Middle:
    """The 50th and 90th percentile of something."""

    p50: float
    p90: float | None = None


@dataclass(frozen=True, slots=True)
class Landmarks:
    """One corpus, by what a server feels of it.

    ``reuse`` is within sessions, over tokens of whole blocks. ``reuse_across`` is what it would be
    if sessions of one standing prompt (tools and system) shared it too. ``subagent_sessions`` is
    the share of sessions that have any.
    """

    name: str
    requests: Middle
    input_tokens: Middle
    output_tokens: Middle
    gap_s: Middle
    reuse: float
    reuse_across: float | None
    subagent_sessions: float


PUBLIC = Landmarks(
    name="public",
    requests=Middle(45.5),
    input_tokens=Middle(103_700, 233_600),
    output_tokens=Middle(216),
    gap_s=Middle(9.1),
    reuse=0.9634,
    reuse_across=None,
    subagent_sessions=17 / 710,
)
"""710 recordings of April 2026, the set that ``fits.py`` was fitted to."""


def landmarks(corpus: Corpus, statistics: CorpusStatistics, name: str) -> Landmarks:
    reuse, reuse_across = _reuse(corpus.sessions)
    return Landmarks(
        name=name,
        requests=_middle(statistics.requests_per_session),
        input_tokens=_middle(statistics.input_tokens_per_request),
        output_tokens=_middle(statistics.output_tokens_per_request),
        gap_s=_middle(statistics.gap_s),
        reuse=reuse,
        reuse_across=reuse_across,
        subagent_sessions=statistics.subagent_sessions / len(statistics.sessions),
    )


def _middle(of: Percentiles) -> Middle:
    return Middle(of.p50, of.p90)


def _reuse(sessions: Sequence[Session]) -> tuple[float, float]:
    """Return reuse within sessions and across them, weighted by tokens: blocks differ in size."""
    tokens = known = shared = 0
    seen: Counter[tuple[int, int, int]] = Counter()
    for session in sessions:
        requests = session.requests()
        tokens += session.block_size * sum(request.block_count for request in requests)
        known += session.block_size * sum(request.known_blocks for request in requests)
        standing = session.tool_tokens + session.system_tokens
        kind = (session.tool_tokens, session.system_tokens, session.block_size)
        if seen[kind]:
            first = min(requests, key=lambda request: request.recorded_order)
            shared += session.block_size * min(standing // session.block_size, first.block_count)
        seen[kind] += 1
    return (known / tokens, (known + shared) / tokens) if tokens else (0.0, 0.0)
