"""What a server's chat template costs, solved from the lengths of a few conversations.

A conversation alternates after an optional system message and ends in a user's. Pure: probes.py
says how the questions get asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from agentx_replay.prompts.probes import Asking, Conversation, ProbeMaker, roles
from agentx_replay.prompts.template import TemplateCost

_MANY_PAIRS = 20
_FEW_WORDS, _MORE_WORDS = 3, 23
_SHAPES = ((0, False), (1, False), (2, False), (_MANY_PAIRS, False), (0, True), (1, True))
"""Pairs of an answer and a question after the first message; whether a system message opens."""
_CALLS = (1, 2, _MANY_PAIRS)
"""Pairs of a call and its result after the first message."""


REFUSES = "refuses tool messages (assistant tool_calls and tool results)"
_DROPS = "leaves the words of tool messages out of the prompt"


class ToolMessagesError(Exception):
    """The server takes no tool messages, or not their words: ``str`` says what it does."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A conversation's cost without its words: ``overhead`` tokens with ``pairs`` of messages."""

    pairs: int
    has_system: bool
    overhead: int


def measure_template(probes: ProbeMaker) -> Asking[TemplateCost | None]:
    """Return what the server's template costs; None where it refuses the plainest conversations.

    A system message that is refused, or whose words are not counted one by one, is one that the
    template does not take.
    """
    asked = [_few_words(probes, pairs, has_system) for pairs, has_system in _SHAPES]
    wordy = probes.conversation([("system", _MORE_WORDS), ("user", _FEW_WORDS)])
    *counts, wordy_count = yield [*asked, wordy]
    measured = [
        _Measured(pairs, has_system, count - probe.words)
        for (pairs, has_system), probe, count in zip(_SHAPES, asked, counts, strict=True)
        if count is not None
    ]
    terse = [m.overhead for m in measured if m.has_system and m.pairs == 0]
    takes_system = wordy_count is not None and terse == [wordy_count - wordy.words]
    return _solved(measured, takes_system=takes_system)


def _few_words(probes: ProbeMaker, pairs: int, has_system: bool) -> Conversation:
    return probes.conversation([(role, _FEW_WORDS) for role in roles(pairs, has_system=has_system)])


def _solved(measured: Sequence[_Measured], *, takes_system: bool) -> TemplateCost | None:
    """Return the cost that explains the conversations, or comes nearest; None without a plain one.

    Lengths tell the cost of a pair (an answer and the next question) and of the conversation with
    its first message, not how each is divided. It is divided so that no message's overhead is
    charged before it arises: a shared prefix may then only lie later in the server's tokens, never
    earlier, which is what sharing needs.
    """
    plain = [m for m in measured if not m.has_system]
    with_system = [m for m in measured if m.has_system] if takes_system else []
    if not any(m.pairs == 0 for m in plain) or not any(m.pairs for m in plain):
        return None
    pair = _pair_cost(plain)
    first = median_low(m.overhead - m.pairs * pair for m in plain)
    user = max(0, min(pair // 2, first))
    without = first - user
    if not with_system:
        return TemplateCost(without, without, 0, user, pair - user, False, assumed=False)
    opened = median_low(m.overhead - m.pairs * pair for m in with_system)
    system = max(0, min(user, opened - user))
    return TemplateCost(opened - user - system, without, system, user, pair - user, assumed=False)


def _pair_cost(plain: Sequence[_Measured]) -> int:
    """Return the slope between the shortest and the longest conversation, in whole tokens."""
    shortest = min(plain, key=lambda m: m.pairs)
    longest = max(plain, key=lambda m: m.pairs)
    return round((longest.overhead - shortest.overhead) / (longest.pairs - shortest.pairs))


def measure_tools(probes: ProbeMaker, plain: TemplateCost) -> Asking[TemplateCost]:
    """Return the cost with tool messages, given that of plain ones; ``probes`` make such.

    As with plain pairs, one is divided so that nothing is charged before it arises.

    Raises ToolMessagesError where they are refused, or the words of a call or of a result are not
    counted: a template that knows no tools leaves them out.
    """
    asked = [_few_words(probes, calls, has_system=False) for calls in _CALLS]
    wordy = probes.conversation(
        [("user", _FEW_WORDS), ("assistant", _MORE_WORDS), ("user", _MORE_WORDS)]
    )
    *counts, wordy_count = yield [*asked, wordy]
    measured = [
        _Measured(calls, has_system=False, overhead=count - probe.words)
        for calls, probe, count in zip(_CALLS, asked, counts, strict=True)
        if count is not None
    ]
    if len(measured) < len(_CALLS) - 1 or wordy_count is None:  # the longest may not fit
        raise ToolMessagesError(REFUSES)
    if wordy_count - wordy.words - measured[0].overhead <= _FEW_WORDS - _MORE_WORDS:
        raise ToolMessagesError(_DROPS)
    pair = _pair_cost(measured)
    first = median_low(m.overhead - m.pairs * pair for m in measured)
    return replace(
        plain,
        tool_messages=True,
        call=pair - pair // 2,
        result=pair // 2,
        first_call=first - plain.without_system - plain.user,
    )


def flat_cost(opening_tokens: int) -> TemplateCost:
    """Return the cost of a prompt without a template: of its opening word and any before."""
    return TemplateCost(opening_tokens, opening_tokens, 0, 0, 0, False, assumed=False)
