"""The proof of a calibration, and a calibration as a value that can be written and read.

Random conversations of up to 60 messages are predicted and counted. Pure: probes.py says how the
questions get asked; word_search.py and template_cost.py find what is proven here.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median_low
from typing import Any, Literal

from agentx_replay.errors import UsageError
from agentx_replay.prompts.probes import Asking, Conversation, Ids, Probe, ProbeMaker, roles
from agentx_replay.prompts.template import CHATML, CHATML_TOOLS, TemplateCost
from agentx_replay.prompts.template_cost import flat_cost
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.reason import Reason

PROBES = 40
MOST_MESSAGES = 60
_WORDS_A_MESSAGE = 12
_USUAL_WORDS = 500
_FORMAT = 1
_MOST_TOKENS = 2**31 - 1
_OF_TOOLS = ("tool_messages", "call", "result", "first_call")

Api = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class Verification:
    """How well the calibration predicted ``probes`` random prompts.

    ``largest_error_tokens`` (counted minus predicted) is the one farthest from 0;
    ``most_messages`` are those of the longest conversation.
    """

    probes: int
    exact: int
    largest_error_tokens: int
    longest_tokens: int
    most_messages: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one token, and one message, is to one server.

    ``words`` are one token each; ``ids``, where prompts are sent as token ids, is theirs in the
    same order, the opening word's before them. ``api`` is what it was made for, ``counted_by``
    names the way the server was asked. ``warnings`` are what a person must mind.
    """

    words: tuple[str, ...]
    opening: str
    cost: TemplateCost
    verification: Verification
    source: str
    counted_by: str
    model: str
    api: Api
    ids: tuple[int, ...] = ()
    warnings: tuple[Reason, ...] = ()

    @property
    def exact(self) -> bool:
        return self.verification.exact == self.verification.probes > 0

    def with_probe(self, error_tokens: int) -> "Calibration":
        """Return the calibration with one more prompt in its proof, counted minus predicted."""
        of = self.verification
        proof = replace(
            of,
            probes=of.probes + 1,
            exact=of.exact + (error_tokens == 0),
            largest_error_tokens=max(of.largest_error_tokens, error_tokens, key=abs),
        )
        return replace(self, verification=proof)

    def with_warning(self, warning: Reason) -> "Calibration":
        return replace(self, warnings=(*self.warnings, warning))

    def lines(self) -> list[str]:
        """Return what a person is told before the first request; one line where all is well."""
        proof, words = self.verification, f"{len(self.words):,} {self.source}"
        if self.cost.tool_messages:
            words += ", tool messages"
        said = [warning.text for warning in self.warnings]
        if not proof.probes:
            return [f"prompt lengths assumed, not measured ({words})", *said]
        share = f"exact on {proof.exact} of {proof.probes} probes"
        if not self.exact:
            share = f"NOT {share}, off by up to {proof.largest_error_tokens:+,} tokens"
        return [f"prompt lengths {share} ({words}, counted by {self.counted_by})", *said]


def assumed(model: str, api: Api, *warnings: Reason, tool_messages: bool = False) -> Calibration:
    """Return what holds where nothing was asked: the built-in words, ChatML's cost or none."""
    chatml, words = CHATML_TOOLS if tool_messages else CHATML, builtin_vocabulary()
    return Calibration(
        words=words.words,
        opening=words.opening,
        cost=chatml if api == "chat" else replace(flat_cost(1), assumed=True),
        verification=Verification(0, 0, 0, 0, 0),
        source="built-in words",
        counted_by="nobody",
        model=model,
        api=api,
        warnings=warnings,
    )


_Counted = Sequence[tuple[Probe, int]]


# --- the proof ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Room:
    """How long probes may be: ``context_tokens`` is the server's (None: not known), and
    ``affordable_tokens`` what one probe may have for the time it takes.
    """

    context_tokens: int | None
    affordable_tokens: int

    @property
    def longest(self) -> int:
        """Tokens of the longest probe: near half the context, if it can be afforded."""
        half = self.affordable_tokens if self.context_tokens is None else self.context_tokens // 2
        return min(self.affordable_tokens, half)


def expected_tokens(probe: Probe, cost: TemplateCost) -> int:
    if not isinstance(probe, Conversation):
        return cost.without_system + probe.words
    return cost.messages([role for role, _ in probe.messages]) + probe.words


def verify(cost: TemplateCost, drawn: Sequence[Probe]) -> Asking[tuple[TemplateCost, Verification]]:
    """Compare prediction and count, after moving the conversation's constants by the median error,
    which is the best that constants can do.
    """
    counts = yield drawn
    counted = [(p, count) for p, count in zip(drawn, counts, strict=True) if count is not None]
    moved = _recentred(cost, counted)
    errors = _errors(moved, counted)
    return moved, Verification(
        probes=len(errors),
        exact=errors.count(0),
        largest_error_tokens=max(errors, key=abs, default=0),
        longest_tokens=max((count for _, count in counted), default=0),
        most_messages=max((probe.message_count for probe, _ in counted), default=0),
    )


def _errors(cost: TemplateCost, counted: _Counted) -> list[int]:
    return [count - expected_tokens(probe, cost) for probe, count in counted]


def _recentred(cost: TemplateCost, counted: _Counted) -> TemplateCost:

    def constant(has_system: bool) -> int:
        mine = [(probe, count) for probe, count in counted if probe.has_system == has_system]
        move = median_low(_errors(cost, mine)) if mine else 0
        return max(0, cost.conversation(has_system=has_system) + move)

    return replace(cost, with_system=constant(True), without_system=constant(False))


def random_conversations(probes: ProbeMaker, cost: TemplateCost, room: Room) -> list[Probe]:
    """Return the longest allowed, one of the most messages, and more, ``PROBES`` in all."""
    long_words = room.longest - expected_tokens(probes.conversation([("user", 0)]), cost)
    longest = probes.conversation([("user", max(0, long_words))])
    counts = [MOST_MESSAGES, *(probes.rng.randint(1, MOST_MESSAGES) for _ in range(PROBES - 2))]
    return [longest, *(_random_conversation(probes, cost, room, most) for most in counts)]


def _random_conversation(
    probes: ProbeMaker, cost: TemplateCost, room: Room, most_messages: int
) -> Conversation:
    """Return a conversation of at most so many messages that fits the context."""
    has_system = cost.takes_system and probes.rng.random() < 0.5
    pairs = max(0, (most_messages - 1 - has_system) // 2)
    while True:
        lengths = [
            (role, probes.rng.randint(0, _WORDS_A_MESSAGE))
            for role in roles(pairs, has_system=has_system)
        ]
        words = sum(count for _, count in lengths)
        tokens = words + cost.messages([role for role, _ in lengths])
        if not pairs or room.context_tokens is None or tokens < room.context_tokens * 3 // 4:
            return probes.conversation(lengths)
        pairs //= 2


def random_texts(probes: ProbeMaker, room: Room) -> list[Probe]:
    return [probes.text(length) for length in _random_lengths(probes.rng, room)]


def random_id_lists(ids: Sequence[int], rng: random.Random, room: Room) -> list[Probe]:
    """Return lists that open with the first of ``ids``, as long as ``random_texts``."""
    return [
        Ids((ids[0], *rng.choices(ids[1:], k=length)), length)
        for length in _random_lengths(rng, room)
    ]


def _random_lengths(rng: random.Random, room: Room) -> list[int]:
    usual = min(room.longest, _USUAL_WORDS)
    return [room.longest, *(rng.randint(0, usual) for _ in range(PROBES - 1))]


# --- on file ------------------------------------------------------------------------------------


def as_document(calibration: Calibration) -> dict[str, Any]:
    """Return the calibration as plain JSON values, those of tool messages if it is of them."""
    document = {"format": _FORMAT, **asdict(calibration)}
    if not calibration.cost.tool_messages:
        document["cost"] = {k: v for k, v in document["cost"].items() if k not in _OF_TOOLS}
    return document


def summary_document(calibration: Calibration) -> dict[str, Any]:
    """Return the same without the lists of words and ids: how many there are."""
    document = as_document(calibration)
    return document | {"words": len(calibration.words), "ids": len(calibration.ids)}


def from_document(document: Any, name: str) -> Calibration:
    """Return the calibration that ``as_document`` wrote. Raises UsageError for anything else."""
    import msgspec  # only --calibration and --resume read a file

    try:
        found = msgspec.convert(document, Calibration)
        _check(document.get("format"), found)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(
            "not-a-calibration",
            f"{name} is not a calibration ({error})",
            "give the calibration.json of a run directory, or leave it out to make one",
        ) from None
    return found


def _check(version: object, found: Calibration) -> None:
    """Raise ``ValueError`` for values of the right types that no calibration has."""
    if version != _FORMAT:
        raise ValueError("it is of another version")
    if not found.words or not all(len(w) == 4 and w.isascii() and w.isalpha() for w in found.words):
        raise ValueError("its words are not four ASCII letters each")
    if len(found.ids) not in (0, 1 + len(found.words)):
        raise ValueError("it has not one token id a word")
    if found.opening.split() != [found.opening]:
        raise ValueError("its opening is not one word")
    cost, proof = found.cost, asdict(found.verification)
    counts = asdict(cost) | proof | {f"ids[{place}]": each for place, each in enumerate(found.ids)}
    # Differences of counts may be negative; a first call still costs something.
    counts |= {"largest_error_tokens": abs(proof["largest_error_tokens"])}
    counts |= {"first_call": cost.call + cost.first_call}
    for name, tokens in counts.items():
        if not 0 <= tokens <= _MOST_TOKENS:
            raise ValueError(f"its {name} is {tokens}, not from 0 to {_MOST_TOKENS}")
