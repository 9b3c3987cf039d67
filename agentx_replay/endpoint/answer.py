"""What a stream says, kept beside what it is measured by: only for runs that feed it back.

Events are split and parsed a second time, so that measuring alone costs nothing more.
"""

from dataclasses import replace
from typing import Any

from agentx_replay.endpoint.chunks import read_json
from agentx_replay.endpoint.parsing import Body, EventSink
from agentx_replay.endpoint.sse import Event, EventSplitter
from agentx_replay.prompts.prompt import Answer

_LEFT_OUT = ("reasoning_content", "reasoning", "tool_calls")


class AnswerSink:
    """An event stream, read as an ``EventSink`` reads it, and the content of its deltas, joined.

    Reasoning and tool calls are left out, as agents and chat templates leave them out of later
    prompts. The tokens of what is left are its share of the token events, and of the completion
    tokens; where the server does not count these, or nothing is left, there is no answer.
    """

    __slots__ = (
        "_contents",
        "_done",
        "_measured",
        "_said_more",
        "_splitter",
        "finished",
        "too_large",
    )

    def __init__(self) -> None:
        self._measured = EventSink()
        self._splitter = EventSplitter()
        self._contents: list[str] = []
        self._said_more = False
        self._done = False
        self.too_large = False
        self.finished = False

    def feed(self, piece: bytes, stamp_ns: int) -> None:
        """Read the events that the piece completes."""
        self._measured.feed(piece, stamp_ns)
        self.too_large, self.finished = self._measured.too_large, self._measured.finished
        if not self.too_large:
            self._read(self._splitter.feed(piece))

    def _read(self, events: list[Event]) -> None:
        for event in events:
            self._done = self._done or event.data.startswith(b"[DONE]")
            chunk = None if self._done else read_json(event.data)
            delta = _delta(chunk)
            content = delta.get("content")
            if isinstance(content, str) and content:
                self._contents.append(content)
            self._said_more = self._said_more or any(map(delta.get, _LEFT_OUT))

    def body(self, *, complete: bool) -> Body:
        """Return the stream; a last event without its blank line counts only where complete."""
        if complete and not self.too_large:
            self._read(self._splitter.rest())
        body = self._measured.body(complete=complete)
        stream = body.stream
        if stream is None or not stream.completion_tokens or not self._contents:
            return body
        events = max(len(self._contents), len(stream.arrival_ns))
        tokens = max(1, round(stream.completion_tokens * len(self._contents) / events))
        whole = len(self._contents) == events and not self._said_more
        answer = Answer(_joined(self._contents), tokens, stream.prompt_tokens, whole)
        return replace(body, stream=replace(stream, answer=answer))


def _joined(contents: list[str]) -> str:
    """Return the whole text: halves of a character that came one by one are joined, a half without
    the other is U+FFFD.
    """
    halves = "".join(contents).encode("utf-16-le", "surrogatepass")
    return halves.decode("utf-16-le", "replace")


def _delta(chunk: Any) -> dict[str, Any]:
    """Return the delta of an event's first choice, empty where it has none."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    delta = choice.get("delta") if isinstance(choice, dict) else None
    return delta if isinstance(delta, dict) else {}
