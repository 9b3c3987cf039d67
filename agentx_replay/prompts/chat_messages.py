"""Chat messages as the API takes them: plain ones, or those of an agent that calls tools.

With tool messages an answer is a call of one tool, its words the argument, and the user's message
after it is the call's result. vLLM, SGLang, llama.cpp and mistral-common take them without a
definition of the tool in the request, which vLLM would refuse where it is not started to parse
calls. Not for: where messages begin and end (messages.py), or which words they have.
"""

from typing import Any, Literal

import orjson

from agentx_replay.prompts.template import Role

Shape = Literal["system", "user", "assistant", "call", "result"]

_TOOL, _ARGUMENT = "bash", "command"


def shape_of(role: Role, place: int, *, tool_messages: bool) -> Shape:
    """``place`` is how many messages come before, a system message not counted."""
    if not tool_messages or role == "system" or place == 0:
        return role
    return "call" if role == "assistant" else "result"


def call_id(place: int) -> str:
    """Return the id of a call and of its result: nine letters and digits, as Mistral asks."""
    return f"call{(place + 1) // 2:05d}"


def chat_message(role: Role, place: int, text: str, *, tool_messages: bool) -> dict[str, Any]:
    """Return the message that says ``text``, an opening word and more.

    A call and a result end in the opening word again: a template may put a quote behind them, which
    then costs the same whatever the last word is.
    """
    shape = shape_of(role, place, tool_messages=tool_messages)
    if shape not in ("call", "result"):
        return {"role": role, "content": text}
    opening, _, _ = text.partition(" ")
    closed = f"{text} {opening}"
    if shape == "result":
        return {"role": "tool", "tool_call_id": call_id(place), "content": closed}
    arguments = orjson.dumps({_ARGUMENT: closed}).decode()
    call = {"name": _TOOL, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id(place), "type": "function", "function": call}],
    }
