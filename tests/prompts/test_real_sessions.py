"""Real recordings: every prompt's length and every shared block, as a ChatML server sees them."""

from pathlib import Path

import pytest

from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.traces.corpus import read_corpus

REAL = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces" / "real"

# Larger ones take a second or more each; the largest are left to benchmarks.
SESSIONS = [
    *("0002", "0057", "0103", "0187", "0291"),
    *(
        pytest.param(each, marks=pytest.mark.long)
        for each in ("0001", "0010", "0256", "0274", "0300", "0307")
    ),
]

# ChatML with five bytes for every token, words being five already, so that token p is byte 5·p.
HEADS = {
    f'{{"role":"{role}","content":"able'.encode(): f"<im>>{role:5.5}<lf>> able".encode()
    for role in ("system", "user", "assistant")
}
TAIL = b"<end><lf>>"
GENERATION = b"<im>>assis<lf>>"
BLOCK_BYTES = 64 * 5


def rendered(messages_json: bytes) -> bytes:
    text = messages_json[1:-1]
    for json_head, head in HEADS.items():
        text = text.replace(json_head, head)
    return text.replace(b'"},', TAIL).replace(b'"}', TAIL) + GENERATION


class UnlimitedCache:
    """A server's prefix cache that never evicts, keyed by the very text of each block."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], int] = {}

    def hit_blocks(self, text: bytes) -> int:
        """Return how many leading blocks are held, and hold the others from now on."""
        node, hits = 0, 0
        for start in range(0, len(text) - BLOCK_BYTES + 1, BLOCK_BYTES):
            key = (node, text[start : start + BLOCK_BYTES])
            hits += key in self._nodes
            node = self._nodes.setdefault(key, len(self._nodes) + 1)
        return hits


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the recorded sessions")
@pytest.mark.parametrize("number", SESSIONS)
def test_lengths_and_sharing_as_sent_equal_the_recorded(number: str) -> None:
    [file] = REAL.glob(f"*{number}*.json.gz")
    [session] = read_corpus(file).sessions
    layout = lay_out(session, CHATML)
    keys = LevelKeys("salt", 8, 1)
    play = PlayComposer(layout, chat_wording(builtin_vocabulary()), keys, lane=0, play_number=0)
    server = UnlimitedCache()
    for request in sorted(session.requests(), key=lambda request: request.recorded_order):
        text = rendered(play.prompt(0, request).messages_json())
        assert len(text) == 5 * request.input_tokens
        assert server.hit_blocks(text) == request.known_blocks
