"""What a server's chat template costs, in tokens: the other half of a prompt's length.

A conversation of messages costs, exactly, one constant plus a constant for each message plus its
words (measured under the real templates of DeepSeek V3, Gemma 3, Llama 3.1 and Qwen 3, when every
message opens with one fixed word that is a single token with and without its space). This module
holds the numbers and says nothing of how they are found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class TemplateCost:
    """Tokens of a chat template, each message's opening word included in the message's cost.

    ``with_system`` and ``without_system`` are the constants of a conversation that has, or has
    not, a system message of its own (a default system prompt, begin-of-text and the generation
    prompt are in them). ``takes_system`` is false if the template refuses a system message, so
    that its text must open the first user message. ``assumed`` is true if nothing was measured.

    With ``tool_messages`` every assistant's message is a call and the user's after it its result.
    ``first_call`` is what the first pair of them costs beyond a later one, or below it.
    """

    with_system: int
    without_system: int
    system: int
    user: int
    assistant: int
    takes_system: bool = True
    assumed: bool = True
    tool_messages: bool = False
    call: int = 0
    result: int = 0
    first_call: int = 0

    def message(self, role: Role, place: int = 0) -> int:
        """Return the cost around a message's words; ``place`` counts the messages before it, a
        system message aside.
        """
        if self.tool_messages and place > 0:
            first_call = self.first_call if place == 1 else 0
            return self.call + first_call if role == "assistant" else self.result
        return {"system": self.system, "user": self.user, "assistant": self.assistant}[role]

    def messages(self, roles: Sequence[Role]) -> int:
        has_system = roles[0] == "system"
        each = (self.message(role, depth - has_system) for depth, role in enumerate(roles))
        return self.conversation(has_system=has_system) + sum(each)

    def conversation(self, *, has_system: bool) -> int:
        return self.with_system if has_system else self.without_system

    def lead(self, *, has_system: bool) -> int:
        """Return how many of that constant's tokens surely stand before the first message.

        Those that open the answer, at the end, are the head of an assistant's message: no more
        than one costs.
        """
        return max(0, self.conversation(has_system=has_system) - self.assistant)


CHATML = TemplateCost(with_system=3, without_system=3, system=6, user=6, assistant=6)
"""``<|im_start|>role\\n`` + opening word + … + ``<|im_end|>\\n``: 3 + 1 + 2 tokens a message, and
``<|im_start|>assistant\\n``, 3 tokens, to generate. What the simulator renders, and what is
assumed of a server that was not measured."""

CHATML_TOOLS = replace(CHATML, tool_messages=True, call=7, result=7)
"""The same with tool messages, as the simulator counts them: one word more that closes each."""
