"""A prompt's messages as spans of token positions, and the rules by which they are cut and grown.

Positions are those of the recorded prompt: block b of a path holds positions b·size and on. A
template's overhead is charged behind the message that causes it, and the conversation's constant
behind the last, all but the lead that is surely before the first: a message's words fill its span
up to ``end``, and the words of the next begin ``cost`` positions later. On the wire some of that
overhead stands *before* the words, which only pushes text to the right, so whatever two prompts
share up to a position they also share in the server's tokens up to at least that position.

Which requests share what is in ``layout.py``; text is in ``text.py``.
"""

from dataclasses import dataclass, field, replace
from typing import cast

from agentx_replay.prompts.template import Role, TemplateCost


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message and, through ``before``, all that precede it: conversations share their beginnings.

    Its words past the opening one are those at positions ``start`` to ``end`` (exclusive).
    ``depth`` counts the messages before it; ``has_system`` says whether the first is a system
    message. Roles alternate between user and assistant after an optional system message.
    """

    role: Role
    start: int
    end: int
    before: "Message | None" = field(repr=False)
    depth: int
    has_system: bool

    @property
    def place(self) -> int:
        """The messages before it, a system message not counted."""
        return self.depth - self.has_system


def _overhead(message: Message, cost: TemplateCost) -> int:
    return cost.message(message.role, message.place)


def first_message(role: Role, end: int, cost: TemplateCost) -> Message:
    """Return a message that opens a conversation: without words where ``end`` is in the lead."""
    lead = cost.lead(has_system=role == "system")
    return Message(role, lead, max(lead, end), None, 0, role == "system")


def follow(before: Message, role: Role, end: int, cost: TemplateCost) -> Message:
    start = before.end + _overhead(before, cost)
    return Message(role, start, end, before, before.depth + 1, before.has_system)


def cut_at(last: Message, position: int) -> Message:
    """Return the conversation without what lies at ``position`` (> 0) or later."""
    while last.start >= position and last.before is not None:
        last = last.before
    return last if last.end <= position else replace(last, end=max(last.start, position))


def end_of_user(input_tokens: int, cost: TemplateCost, place: int, *, has_system: bool) -> int:
    """Return where a last user message at ``place`` must end for all to count ``input_tokens``."""
    closing = _closing(cost, has_system=has_system)
    return input_tokens - closing - cost.message("user", place)


def _closing(cost: TemplateCost, *, has_system: bool) -> int:
    """Return what of a conversation's constant is charged behind its last message."""
    return cost.conversation(has_system=has_system) - cost.lead(has_system=has_system)


def end_in_user(last: Message | None, input_tokens: int, cost: TemplateCost) -> Message:
    """Close a conversation with a user message, so that it counts ``input_tokens`` exactly.

    A user message at the end is lengthened or shortened; after any other one follows, for which
    that other is shortened where it must be. What leaves no room even so is taken off. Where
    ``input_tokens`` cannot hold one bare user message, that is what remains, too long as it is.
    """
    while last is not None:
        place = last.place if last.role == "user" else last.place + 1
        end = end_of_user(input_tokens, cost, place, has_system=last.has_system)
        if last.role == "user":
            if last.end == end:
                return last
            if last.start <= end:
                return replace(last, end=end)
        else:
            room = end - _overhead(last, cost)
            if last.start <= room:
                kept = last if last.end <= room else replace(last, end=room)
                return follow(kept, "user", end, cost)
        last = last.before
    return first_message("user", end_of_user(input_tokens, cost, 0, has_system=False), cost)


def open_conversation(input_tokens: int, system_end: int, cost: TemplateCost) -> Message:
    """Return a system message up to ``system_end`` (0: none) and a user message with the rest.

    All is one user message where the template takes no system message.
    """
    if system_end == 0 or not cost.takes_system:
        return end_in_user(None, input_tokens, cost)
    return end_in_user(first_message("system", system_end, cost), input_tokens, cost)


def extend(
    kept: Message,
    cut: int,
    input_tokens: int,
    previous_output_tokens: int,
    cost: TemplateCost,
    block_size: int,
) -> Message:
    """Return the conversation that keeps ``kept``, cut at ``cut``, and counts ``input_tokens``.

    After a user message comes an assistant message of ceil(previous output / block) blocks, or
    one block less than there is, and then the user's. It is left out where it would have no block
    of its own, unless the user message before it had ended short of the cut: that message is kept
    as it was sent, so another must take the positions in between.
    """
    if kept.role == "user":
        answered = -(-previous_output_tokens // block_size)
        blocks = min(answered, (input_tokens - cut) // block_size - 1)
        earliest = kept.end + _overhead(kept, cost)
        end = max(earliest, cut + block_size * max(0, blocks))
        answer = follow(kept, "assistant", end, cost)
        room = end_of_user(input_tokens, cost, answer.place + 1, has_system=kept.has_system)
        if (blocks > 0 or kept.end < cut) and end + _overhead(answer, cost) <= room:
            return end_in_user(answer, input_tokens, cost)
    return end_in_user(kept, input_tokens, cost)


def sent_tokens(last: Message, cost: TemplateCost) -> int:
    return last.end + _overhead(last, cost) + _closing(cost, has_system=last.has_system)


def _apart(earlier: Message | None, later: Message) -> tuple[list[Message], list[Message]]:
    """Return the messages of each, in order, that come after the last object both hold."""
    left: list[Message] = []
    right: list[Message] = []
    mine, its = earlier, cast("Message | None", later)
    for depth in range(max(later.depth, -1 if earlier is None else earlier.depth), -1, -1):
        if mine is its:
            break
        if mine is not None and mine.depth == depth:
            left.append(mine)
            mine = mine.before
        if its is not None and its.depth == depth:
            right.append(its)
            its = its.before
    return left[::-1], right[::-1]


def parting(earlier: Message | None, later: Message, alike_words: int) -> tuple[list[Message], int]:
    """Return the messages of ``later`` that ``earlier`` has not whole, and where they part.

    The words before position ``alike_words`` are the same in both. The position is that of the
    first word that ``earlier`` has not in the first of these messages.
    """
    left, right = _apart(earlier, later)
    for place, (mine, its) in enumerate(zip(left, right, strict=False)):
        if mine.role != its.role:
            return right[place:], its.start
        if mine.end != its.end or its.end > alike_words:
            return right[place:], max(its.start, min(mine.end, its.end, alike_words))
    rest = right[len(left) :]
    return rest, rest[0].start if rest else later.end
