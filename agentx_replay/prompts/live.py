"""Prompts that carry what the server really answered, in place of words: ``--live-history``.

A request that goes on from the whole of an earlier prompt keeps it whole, and says the answer to
it next, so that an engine that keeps what it generated finds both again. Without such an answer
the layout's rule holds (``layout.py``): a message of words, after what is shared. What was sent
once as a message is never worded anew: it is cut, or left out.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import orjson

from agentx_replay.prompts.compose import SAME_WORDS, PlayComposer
from agentx_replay.prompts.layout import Layout, RequestLayout
from agentx_replay.prompts.messages import (
    Message,
    cut_at,
    end_in_user,
    end_of_user,
    extend,
    follow,
    parting,
    sent_tokens,
)
from agentx_replay.prompts.prompt import Answer, Prompt
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.prompts.vocabulary import WORD_BYTES
from agentx_replay.traces.model import RecordedRequest


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A conversation as it was sent: ``laid`` has its messages, ``texts`` a text for each.

    ``words_end`` is the position of the first answer in it, None if all are words. ``held_tokens``
    of its beginning had been sent or answered before. ``says_answer`` is as in ``Prompt``.
    """

    conversation: int
    request: RecordedRequest
    laid: RequestLayout
    texts: tuple[str, ...] = field(repr=False)
    words_end: int | None
    held_tokens: int = 0
    says_answer: bool | None = None


def go_on(
    before: Message,
    answer_tokens: int,
    uncounted_tokens: int,
    input_tokens: int,
    cost: TemplateCost,
) -> Message | None:
    """Return ``before`` whole, an answer to it, and a user's message up to ``input_tokens``.

    The answer has no opening word beside its own tokens. It is cut where it would be too long;
    None where there is no room for any of it. ``before`` was counted as ``uncounted_tokens`` more
    than planned, for which the user's message makes up.
    """
    start = before.end + cost.message(before.role, before.place) + uncounted_tokens
    end = end_of_user(input_tokens, cost, before.place + 2, has_system=before.has_system)
    room = end - cost.message("assistant", before.place + 1) - start
    if room < 0:
        return None
    answer = follow(before, "assistant", start + min(answer_tokens - 1, room), cost)
    return end_in_user(replace(answer, start=start), input_tokens, cost)


def cut_text(text: str, tokens: int, kept_tokens: int) -> str:
    """Return the beginning of a text of ``tokens`` that has about ``kept_tokens``.

    A text of words, which are of one width, is cut to the token.
    """
    return text if kept_tokens >= tokens else text[: max(1, len(text) * kept_tokens // tokens)]


class LiveComposer:
    """The prompts of one play. It keeps each conversation's last conversation, and those that a
    later request of the recording goes on from; they share their texts.
    """

    def __init__(
        self, composer: PlayComposer, layout: Layout, cost: TemplateCost, opening: str
    ) -> None:
        self._composer = composer
        self._layout = layout
        self._cost = cost
        self._opening = opening
        self._sent: dict[int, _Sent] = {}
        self._answers: dict[int, Answer | None] = {}
        self._last: dict[int, int] = {}
        self._followers = Counter(laid.follows for laid in layout.requests)

    def prompt(self, conversation: int, request: RecordedRequest) -> Prompt:
        """Return the prompt of ``request``, which is about to be sent by ``conversation``.

        Its blocks are named as far as they are surely words: up to the first answer.
        """
        prompt = self._composer.prompt(conversation, request)
        sent = self._converse(conversation, request)
        self._keep(sent)
        worded = None if sent.words_end is None else sent.words_end // self._layout.block_size
        return replace(
            prompt,
            tokens=sent_tokens(sent.laid.last, self._cost),
            reusable_tokens=max(prompt.reusable_tokens, sent.held_tokens),
            block_ids=prompt.block_ids[:worded],
            messages_json=partial(_messages_json, sent),
            says_answer=sent.says_answer,
        )

    def compose(self, conversation: int, request: RecordedRequest) -> int:  # noqa: ARG002
        """Do nothing: what is said depends on answers still to come."""
        return 0

    def answered(self, request_index: int, answer: Answer | None) -> None:
        if request_index in self._sent:
            self._answers[request_index] = answer

    def forget(self, conversation: int) -> None:
        """Release what is held for an ended conversation, but for what others go on from."""
        self._composer.forget(conversation)
        self._release(self._last.pop(conversation, None))

    # -- what is kept ------------------------------------------------------------------------

    def _keep(self, sent: _Sent) -> None:
        """Keep what is sent now in place of what nothing goes on from any more."""
        before = self._last.get(sent.conversation)
        self._sent[sent.request.index] = sent
        self._last[sent.conversation] = sent.request.index
        self._followers[sent.laid.follows] -= 1
        self._release(before)
        self._release(sent.laid.follows)

    def _release(self, index: int | None) -> None:
        if index is None or self._followers[index] > 0 or index in self._last.values():
            return
        self._sent.pop(index, None)
        self._answers.pop(index, None)

    # -- which messages ----------------------------------------------------------------------

    def _converse(self, conversation: int, request: RecordedRequest) -> _Sent:
        """Decide what a request says: what its conversation said last goes before what another did,
        if not less of it is shared.
        """
        laid = self._layout.requests[request.index]
        own = self._sent.get(self._last.get(conversation, -1))
        followed = None if laid.follows is None else self._sent.get(laid.follows)
        shared = 0 if followed is None else self._shared_tokens(followed, laid)
        unanswered = False
        for before in (own, followed):
            if before is None or self._shared_tokens(before, laid) < shared:
                continue
            index = before.request.index
            if index not in self._answers or not self._goes_on(before, laid):
                continue
            answer = self._answers[index]
            unanswered = unanswered or answer is None
            going_on = (
                None if answer is None else self._go_on(conversation, request, before, answer)
            )
            if going_on is not None:
                return going_on
        words = self._in_words(conversation, request, followed, shared)
        return replace(words, says_answer=False if unanswered else None)

    def _in_words(
        self, conversation: int, request: RecordedRequest, followed: _Sent | None, shared: int
    ) -> _Sent:
        """Say a request by the layout's rule, after ``shared`` tokens of the one it follows."""
        laid, size = self._layout.requests[request.index], self._layout.block_size
        if followed is None:
            return self._worded(conversation, request, None, laid.last, 0)
        kept = cut_at(followed.laid.last, shared)
        output = followed.request.output_tokens
        last = extend(kept, shared, laid.tokens, output, self._cost, size)
        again = (
            followed.conversation == conversation
            and followed.laid.private_seed == laid.private_seed
        )
        return self._worded(conversation, request, followed, last, SAME_WORDS if again else shared)

    def _goes_on(self, before: _Sent, laid: RequestLayout) -> bool:
        """Whether a request keeps all recorded blocks of ``before``, and grew enough for the layout
        to have placed a message of words after them.
        """
        was, size = before.laid, self._layout.block_size
        whole = was.whole_blocks * size
        keeps_all = 0 < whole == was.tokens // size * size <= self._shared_tokens(before, laid)
        return keeps_all and laid.tokens - whole >= 2 * size

    def _go_on(
        self, conversation: int, request: RecordedRequest, before: _Sent, answer: Answer
    ) -> _Sent | None:
        laid, size = self._layout.requests[request.index], self._layout.block_size
        planned = sent_tokens(before.laid.last, self._cost)
        uncounted = 0 if answer.prompt_tokens is None else answer.prompt_tokens - planned
        if uncounted <= -_tokens(before.laid.last):
            uncounted = 0  # more than the last message has: no count of the prompt
        last = go_on(before.laid.last, answer.tokens, uncounted, laid.tokens, self._cost)
        if last is None or last.before is None:
            return None
        said, held = last.before, planned + uncounted
        if answer.whole and _tokens(said) == answer.tokens:
            held += answer.tokens - 1  # the last token of an answer is never computed upon
        return replace(
            self._worded(conversation, request, before, last, SAME_WORDS, answer),
            words_end=said.start if before.words_end is None else before.words_end,
            held_tokens=held // size * size,
            says_answer=True,
        )

    def _shared_tokens(self, before: _Sent, laid: RequestLayout) -> int:
        shared = self._layout.common_blocks(before.laid.tip_block, laid.tip_block)
        return shared * self._layout.block_size

    # -- which texts -------------------------------------------------------------------------

    def _worded(
        self,
        conversation: int,
        request: RecordedRequest,
        before: _Sent | None,
        last: Message,
        alike_words: int,
        answer: Answer | None = None,
    ) -> _Sent:
        """Put texts to messages: those of ``before`` while words are alike, ``answer`` if there is
        one, and words.
        """
        laid = replace(self._layout.requests[request.index], last=last)
        old = () if before is None else before.texts
        rest, position = parting(None if before is None else before.laid.last, last, alike_words)
        texts = list(old[: last.depth + 1 - len(rest)])
        words = self._composer.words(conversation, laid, position)
        for message in rest:
            begin = max(message.start, position)
            text = self._opening
            if answer is not None and message is rest[0]:
                text, begin = cut_text(answer.text, answer.tokens, _tokens(message)), message.end
            elif before is not None and begin > message.start:
                was = next(each for each in _back(before.laid.last) if each.depth == message.depth)
                text = cut_text(old[message.depth], _tokens(was), 1 + begin - message.start)
            first, end = WORD_BYTES * (begin - position), WORD_BYTES * (message.end - position)
            texts.append(text + str(words[first:end], "ascii"))
        words_end = None if before is None else before.words_end
        if words_end is not None and words_end >= alike_words:
            words_end = None
        return _Sent(conversation, request, laid, tuple(texts), words_end)


def _tokens(message: Message) -> int:
    return 1 + message.end - message.start


def _back(last: Message) -> Iterator[Message]:
    message: Message | None = last
    while message is not None:
        yield message
        message = message.before


def _messages_json(sent: _Sent) -> bytes:
    said = zip(_back(sent.laid.last), reversed(sent.texts), strict=True)
    return orjson.dumps([{"role": m.role, "content": text} for m, text in said][::-1])
