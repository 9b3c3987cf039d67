"""What a corpus holds, in numbers: sizes, timing, prefix reuse, edits, duplicates, oddities.

Pure functions from a ``Corpus`` to values. Which requests of a recording's main list form one
conversation is ``plan``'s to say: whoever knows passes it in, else the list counts as one
conversation.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np

from agentx_replay.traces.model import (
    BlockTrie,
    Corpus,
    ReadingNotes,
    RecordedRequest,
    Session,
    Subagent,
)
from agentx_replay.traces.weka import request_lists

_SHINGLE_REQUESTS = 3
"""Consecutive requests in a shingle: one pair of lengths recurs by chance, three do not."""

Conversations: TypeAlias = Callable[[Session], Sequence[Sequence[RecordedRequest]]]
"""From a session to the conversations that its main list holds, subagents' left out."""


def main_list(session: Session) -> list[tuple[RecordedRequest, ...]]:
    return request_lists(session.entries)[:1]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The 50th and 90th percentile (linear between the two nearest values) and the maximum."""

    p50: float
    p90: float
    max: float


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """One session. ``peak_tokens`` is the most context it needs: input plus output, at least 1.

    ``reuse`` is the share of its blocks that an unlimited cache, empty at first, would hold:
    the sum of ``known_blocks`` over the sum of ``block_count``. As each new block is missed once
    whatever the order, it is 1 - distinct blocks / blocks. ``resets`` are requests of the main
    list that keep less than half of the blocks of the one before them in their conversation,
    ``edits`` those that keep at least half but not all.
    """

    id: str
    requests: int
    subagents: int
    input_tokens: int
    output_tokens: int
    peak_tokens: int
    blocks: int
    known_blocks: int
    resets: int
    edits: int

    @property
    def reuse(self) -> float:
        return self.known_blocks / self.blocks if self.blocks else 0.0


@dataclass(frozen=True, slots=True)
class CorpusStatistics:
    """A corpus: its sessions and their sums (of ``peak_tokens`` the greatest).

    ``gap_s`` counts from the recorded end of the request before in the same list and is 0 where
    the two overlap. ``subagent_sessions`` have at least one subagent. ``families`` are ids of
    sessions that repeat one another. ``skipped`` names files left out, with the reason.
    """

    name: str
    fingerprint: str
    sessions: tuple[SessionStatistics, ...]
    total: SessionStatistics
    requests_per_session: Percentiles
    input_tokens_per_request: Percentiles
    output_tokens_per_request: Percentiles
    peak_tokens_per_session: Percentiles
    gap_s: Percentiles
    subagent_sessions: int
    families: tuple[tuple[str, ...], ...]
    notes: ReadingNotes
    skipped: tuple[tuple[str, str], ...]


def corpus_statistics(corpus: Corpus, conversations: Conversations = main_list) -> CorpusStatistics:
    sessions = tuple(session_statistics(session, conversations) for session in corpus.sessions)
    requests = [request for session in corpus.sessions for request in session.requests()]
    return CorpusStatistics(
        name=corpus.name,
        fingerprint=corpus.fingerprint,
        sessions=sessions,
        total=_total(corpus.name, sessions),
        requests_per_session=percentiles([s.requests for s in sessions]),
        input_tokens_per_request=percentiles([r.input_tokens for r in requests]),
        output_tokens_per_request=percentiles([r.output_tokens for r in requests]),
        peak_tokens_per_session=percentiles([s.peak_tokens for s in sessions]),
        gap_s=percentiles([gap for session in corpus.sessions for gap in _gaps_s(session)]),
        subagent_sessions=sum(s.subagents > 0 for s in sessions),
        families=duplicate_families(corpus.sessions),
        notes=_summed([session.notes for session in corpus.sessions]),
        skipped=corpus.skipped,
    )


def _total(name: str, sessions: Sequence[SessionStatistics]) -> SessionStatistics:
    counts = [astuple(session)[1:] for session in sessions]
    total = SessionStatistics(name, *map(sum, zip(*counts, strict=True)))
    return replace(total, peak_tokens=max(session.peak_tokens for session in sessions))


def _summed(notes: Sequence[ReadingNotes]) -> ReadingNotes:
    unknown: Counter[str] = Counter()
    for each in notes:
        unknown.update(dict(each.unknown_keys))
    return ReadingNotes(
        unknown_keys=tuple(sorted(unknown.items())),
        missing_durations=sum(n.missing_durations for n in notes),
        zero_outputs=sum(n.zero_outputs for n in notes),
        short_block_lists=sum(n.short_block_lists for n in notes),
        negative_gaps=sum(n.negative_gaps for n in notes),
        relative_inner_times=any(n.relative_inner_times for n in notes),
    )


def session_statistics(
    session: Session, conversations: Conversations = main_list
) -> SessionStatistics:
    requests = session.requests()
    kept = list(
        chain(
            *(_kept_shares(conversation, session.blocks) for conversation in conversations(session))
        )
    )
    return SessionStatistics(
        id=session.id,
        requests=len(requests),
        subagents=sum(isinstance(entry, Subagent) for entry in session.entries),
        input_tokens=sum(r.input_tokens for r in requests),
        output_tokens=sum(r.output_tokens for r in requests),
        peak_tokens=max(r.input_tokens + max(1, r.output_tokens) for r in requests),
        blocks=sum(r.block_count for r in requests),
        known_blocks=sum(r.known_blocks for r in requests),
        resets=sum(share < 0.5 for share in kept),
        edits=sum(0.5 <= share < 1 for share in kept),
    )


def percentiles(values: Sequence[float]) -> Percentiles:
    """Return the percentiles of values in any order, all 0 for no value."""
    if not values:
        return Percentiles(0.0, 0.0, 0.0)
    p50, p90, greatest = np.percentile(values, (50, 90, 100))
    return Percentiles(float(p50), float(p90), float(greatest))


def duplicate_families(sessions: Sequence[Session]) -> tuple[tuple[str, ...], ...]:
    """Return groups of ids of sessions that are near-duplicates, each in corpus order.

    Two sessions are near-duplicates if they share at least half of the shingles of the one that
    has fewer; a shingle is the (input, output) tokens of three consecutive requests, in file
    order (of all, where there are fewer). What is near-duplicate of a family's member belongs to
    the family.
    """
    families: dict[int, list[str]] = {}
    shingles = [_shingles(session.requests()) for session in sessions]
    for family, session in zip(_families(shingles), sessions, strict=True):
        families.setdefault(family, []).append(session.id)
    return tuple(tuple(members) for members in families.values() if len(members) > 1)


_Shingle = tuple[tuple[int, int], ...]


def _shingles(requests: Sequence[RecordedRequest]) -> set[_Shingle]:
    lengths = [(request.input_tokens, request.output_tokens) for request in requests]
    width = min(_SHINGLE_REQUESTS, len(lengths))
    return {tuple(lengths[i : i + width]) for i in range(len(lengths) - width + 1)}


def _families(shingles: Sequence[set[_Shingle]]) -> list[int]:
    """Return the family of each session, in time proportional to the shingles of alike sessions.

    Sessions go from small to large. Of a smaller one that shares half, the larger has at least one
    of the rarest ``half + 1`` shingles, so only these are indexed, by family: however many alike
    sessions a family has, a shingle of theirs is looked up once.
    """
    often = Counter(chain.from_iterable(shingles))
    family = list(range(len(shingles)))
    members: dict[int, list[int]] = {number: [number] for number in family}
    holders: dict[_Shingle, set[int]] = defaultdict(set)
    for number in sorted(range(len(shingles)), key=lambda each: len(shingles[each])):
        own = shingles[number]
        for other in {family[held] for shingle in own for held in holders.get(shingle, ())}:
            if any(
                2 * len(own & shingles[m]) >= len(shingles[m]) for m in reversed(members[other])
            ):
                small, large = sorted((other, family[number]), key=lambda f: len(members[f]))
                for moved in members[small]:
                    family[moved] = large
                members[large] += members.pop(small)
        for shingle in sorted(own, key=often.__getitem__)[: len(own) // 2 + 1]:
            holders[shingle].add(family[number])
    return family


def _kept_shares(requests: Sequence[RecordedRequest], blocks: BlockTrie) -> Iterator[float]:
    """Yield the share of each request's blocks that the next one keeps as its own first blocks."""
    paths = (blocks.path(request.tip_block) for request in requests)
    for before, after in pairwise(paths):
        shorter = min(len(before), len(after))
        differs = np.flatnonzero(before[:shorter] != after[:shorter])
        kept = int(differs[0]) if len(differs) else shorter
        yield kept / len(before) if len(before) else 1.0


def _gaps_s(session: Session) -> Iterator[float]:
    for requests in request_lists(session.entries):
        for before, after in pairwise(requests):
            yield max(0.0, after.start_s - before.end_s)
