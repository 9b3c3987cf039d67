"""A model's own tokenizer and chat template as the simulator's renderer: it counts as they do."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agentx_replay.simulator.api import RefusedError
from agentx_replay.simulator.tokens import Message, Tokens, message_text


class ChatRenderer:
    """Renders conversations by ``template`` and counts by the ``tokenizer.json`` of ``directory``.

    As vLLM does, a conversation is encoded without adding special tokens, plain text with, and a
    call comes to the template with its arguments as an object and no content as an empty one;
    ``calls_as_sent`` leaves them a text and null, as llama.cpp does for templates that want that.
    ``now`` is what a template may call to say the time.
    """

    def __init__(
        self,
        directory: Path,
        template: str | None = None,
        now: Callable[[], str] = lambda: "noon",
        *,
        calls_as_sent: bool = False,
    ) -> None:
        self._calls_as_sent = calls_as_sent
        config = json.loads((directory / "tokenizer_config.json").read_text("utf-8"))
        self._tokenizer = _tokenizer(directory / "tokenizer.json")
        self._special = {name: _text(config.get(name)) for name in ("bos_token", "eos_token")}
        # Trimmed blocks are how every published template is meant to be read.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals |= {"raise_exception": _refuse, "now": now}
        self._template = environment.from_string(template or config["chat_template"])

    def chat(self, messages: Sequence[Message], tools: Sequence[Any]) -> Tokens:
        """Return the tokens of a conversation, generation prompt included."""
        said = [self._said(message) for message in messages]
        try:
            text = self._template.render(messages=said, add_generation_prompt=True, **self._special)
        except TemplateError as error:
            raise RefusedError(400, f"the template refuses: {error}") from None
        return self._tokens(text, add_special=False)

    def _said(self, message: Message) -> Message:
        calls = message.get("tool_calls")
        if not calls:
            return {**message, "content": message_text(message)}
        if self._calls_as_sent:
            return message
        calls = [
            {**call, "function": {**call["function"], "arguments": json.loads(arguments)}}
            for call in calls
            for arguments in [call["function"]["arguments"]]
        ]
        return {**message, "content": message["content"] or "", "tool_calls": calls}

    def text(self, text: str) -> Tokens:
        """Return the tokens of plain text, without any template."""
        return self._tokens(text, add_special=True)

    def _tokens(self, text: str, *, add_special: bool) -> Tokens:
        ids = self._tokenizer.encode(text, add_special_tokens=add_special).ids
        return np.array(ids, np.uint64)


@cache
def _tokenizer(path: Path) -> Any:
    """Return a tokenizer; reading one takes a second."""
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.Tokenizer.from_file(str(path))


def _text(token: str | Mapping[str, str] | None) -> str:
    return token["content"] if isinstance(token, Mapping) else (token or "")


def _refuse(message: str) -> None:
    raise TemplateError(message)
