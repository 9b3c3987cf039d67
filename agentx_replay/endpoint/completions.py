"""The OpenAI completions request as bytes: a prompt as it stands, without a chat template.

The prompt is text, or token ids where it was composed of them. Not for: what the prompt says (the
prompts room), or chat (chat.py).
"""

from collections.abc import Mapping
from types import MappingProxyType

from agentx_replay.endpoint.chat import body_start, head_start, id_headers, post
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.replay.ports import Dispatch

_NONE: Mapping[str, int] = MappingProxyType({})


class CompletionRequests:
    """Builds the completions requests of one server."""

    __slots__ = ("_body_start", "_head_start", "_session_headers")

    def __init__(self, settings: EndpointSettings, more: Mapping[str, int] = _NONE) -> None:
        """``more`` are body fields beyond the user's, for a probe."""
        self._head_start = head_start(settings, "POST", "/completions")
        self._body_start = body_start(settings, more)
        self._session_headers = settings.session_headers

    def request(self, dispatch: Dispatch) -> tuple[bytes, ...]:
        """Return the HTTP request for a dispatch, in pieces; builds its prompt."""
        ids = id_headers(dispatch, session=self._session_headers)
        return self._pieces(ids, dispatch.max_tokens, dispatch.prompt.messages_json())

    def build(self, ids: dict[str, str], max_tokens: int, prompt_json: bytes) -> bytes:
        """Return the whole HTTP request for a prompt in JSON: a string or a list of token ids."""
        return b"".join(self._pieces(ids, max_tokens, prompt_json))

    def _pieces(
        self, ids: dict[str, str], max_tokens: int, prompt_json: bytes
    ) -> tuple[bytes, ...]:
        limit = b'"max_tokens":%d,"prompt":' % max_tokens
        return post(self._head_start, ids, (self._body_start, limit, prompt_json, b"}"))
