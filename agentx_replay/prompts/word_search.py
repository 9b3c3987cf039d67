"""Which words are one token each where a server counts: found by counting texts of many at once.

A text of K words must cost K tokens more than one with none. One order could let errors cancel,
so several random orders are asked. Where that fails, the words are taken apart in ever smaller
chunks, within a bounded number of probes. Pure: see probes.py for how the questions get asked.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentx_replay.prompts.probes import Asking, Count, Text, sentence
from agentx_replay.prompts.vocabulary import FEWEST_WORDS

ORDERS = 3
CHUNKS = 16
CHUNK_ORDERS = 2
ENOUGH_WORDS = 1_000
MOST_PROBES = 60
MOST_WORDS_A_TEXT = 2_048
_FEWEST_WORDS_A_TEXT = 16

_Group = Sequence[str]


@dataclass(frozen=True, slots=True)
class Words:
    """Words found; ``opening_tokens`` is what a text of the opening word alone costs.

    ``excess_per_word`` is by how many tokens a word is more than one on average (negative: less);
    0.0, and ``exact``, where the last text of all of them cost exactly one each.
    ``words_a_text`` is how many the server took in one text.
    """

    words: tuple[str, ...]
    opening_tokens: int
    words_a_text: int
    exact: bool = True
    excess_per_word: float = 0.0


class UncountedError(Exception):
    """The server counts not even the shortest text."""


def find_words(
    candidates: _Group,
    opening: str,
    rng: random.Random,
    most_words_a_text: int = MOST_WORDS_A_TEXT,
) -> Asking[Words]:
    """Find those of ``candidates`` that are one token each, or the best there are.

    Raises UncountedError if the server refuses a text of a few words.
    """
    opening_tokens, size = yield from _fitting(candidates, opening, most_words_a_text)
    texts = _Texts(opening, opening_tokens, size)
    orders = [rng.sample(candidates, len(candidates)) for _ in range(ORDERS)]
    excesses = yield from texts.excesses(orders)
    if not any(excesses):
        return Words(tuple(candidates), opening_tokens, size)
    kept, rest = yield from _take_apart(candidates, texts, rng)
    if len(kept) < FEWEST_WORDS:
        kept = _least_wrong(kept, rest)
    (excess,) = yield from texts.excesses([rng.sample(kept, len(kept))])
    return Words(tuple(kept), opening_tokens, size, excess == 0, excess / len(kept))


def _fitting(candidates: _Group, opening: str, most_words: int) -> Asking[tuple[int, int]]:
    """Return the cost of the opening word, and how many words the server takes in one text."""
    size = min(most_words, len(candidates))
    (alone,) = yield [Text(opening, 0)]
    while alone is not None and size >= min(_FEWEST_WORDS_A_TEXT, len(candidates)):
        (count,) = yield [Text(sentence(opening, candidates[:size]), size)]
        if count is not None:
            return alone, size
        size //= 2
    raise UncountedError


@dataclass(frozen=True, slots=True)
class _Texts:
    """How groups of words are asked about."""

    opening: str
    opening_tokens: int
    words_a_text: int

    def excesses(self, groups: Sequence[_Group]) -> Asking[list[int]]:
        """Return by how many tokens each group costs more than one a word."""
        pieces = [self._pieces(group) for group in groups]
        probes = [Text(sentence(self.opening, p), len(p)) for each in pieces for p in each]
        counts = iter((yield probes))
        return [sum(self._excess(next(counts), piece) for piece in each) for each in pieces]

    def _pieces(self, group: _Group) -> list[_Group]:
        size = self.words_a_text
        return [group[at : at + size] for at in range(0, len(group), size)]

    def _excess(self, count: Count, piece: _Group) -> int:
        """Return a piece's excess; one that is refused has grown too long: a token a word more."""
        return len(piece) if count is None else count - self.opening_tokens - len(piece)


class _Judged(NamedTuple):
    """A chunk of words and its excess in each order asked."""

    words: _Group
    excesses: tuple[int, ...]

    @property
    def exact(self) -> bool:
        return not any(self.excesses)

    def without(self, half: "_Judged") -> "_Judged":
        rest = zip(self.excesses, half.excesses, strict=True)
        return _Judged(self.words[1::2], tuple(whole - mine for whole, mine in rest))


def _judge(chunks: Sequence[_Group], texts: _Texts, rng: random.Random) -> Asking[list[_Judged]]:
    orders = [rng.sample(chunk, len(chunk)) for chunk in chunks for _ in range(CHUNK_ORDERS)]
    excesses = yield from texts.excesses(orders)
    each = (excesses[at : at + CHUNK_ORDERS] for at in range(0, len(excesses), CHUNK_ORDERS))
    return [_Judged(chunk, tuple(e)) for chunk, e in zip(chunks, each, strict=True)]


def _take_apart(
    candidates: _Group, texts: _Texts, rng: random.Random
) -> Asking[tuple[list[str], list[_Judged]]]:
    """Return the words of exact chunks, and the chunks that are not, cut ever smaller.

    Of a chunk that is cut only one half is asked about: the rest of the excess is the other's.
    Ends with enough words, with nothing to cut, or after ``MOST_PROBES``.
    """
    mixed = rng.sample(candidates, len(candidates))
    chunks = [mixed[at::CHUNKS] for at in range(CHUNKS) if mixed[at::CHUNKS]]
    judged = yield from _judge(chunks, texts, rng)
    probes = CHUNK_ORDERS * len(chunks)
    while True:
        exact = [each for each in judged if each.exact]
        bad = sorted((each for each in judged if not each.exact), key=lambda e: -len(e.words))
        kept = [word for each in exact for word in each.words]
        affordable = (MOST_PROBES - probes) // CHUNK_ORDERS
        cut = [each for each in bad[:affordable] if len(each.words) > 1]
        if len(kept) >= ENOUGH_WORDS or not cut:
            return kept, bad
        halves = yield from _judge([each.words[0::2] for each in cut], texts, rng)
        probes += CHUNK_ORDERS * len(cut)
        others = [each.without(half) for each, half in zip(cut, halves, strict=True)]
        judged = [*exact, *bad[len(cut) :], *halves, *others]


def _least_wrong(kept: list[str], rest: Sequence[_Judged]) -> list[str]:
    """Return at least ``FEWEST_WORDS``, if there are so many: the exact ones, then the best."""
    words = list(kept)
    for chunk in sorted(rest, key=lambda each: max(map(abs, each.excesses)) / len(each.words)):
        if len(words) < FEWEST_WORDS:
            words += chunk.words
    return words
