"""A recorded session sent as one play, prompt after prompt, under a calibration."""

from collections.abc import Iterator
from functools import cache
from itertools import count, takewhile

import numpy as np
from numpy.typing import NDArray

from agentx_replay.experiment.prompting import wording_of
from agentx_replay.plan.selection import select_sessions
from agentx_replay.prompts.calibration import Calibration
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import RecordedRequest, Session


@cache
def small_sessions() -> tuple[Session, ...]:
    """Return the bundled sessions that need 4,096 tokens at most."""
    return select_sessions(read_corpus(shipped_directory("traces")), max_context=4096).sessions


def sent(
    session: Session, calibration: Calibration, *, play_number: int = 0
) -> Iterator[tuple[RecordedRequest, bytes]]:
    """Yield each request of a play in recorded order, with the JSON of its prompt."""
    wording = wording_of(calibration, chat=calibration.api == "chat")
    layout = lay_out(session, calibration.cost)
    play = PlayComposer(
        layout, wording, LevelKeys(session.id, 1, 0), lane=0, play_number=play_number
    )
    for request in sorted(session.requests(), key=lambda request: request.recorded_order):
        yield request, play.prompt(0, request).messages_json()


class UnlimitedCache:
    """Block prefix caching that forgets nothing."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._held: set[bytes] = set()

    def blocks_hit(self, tokens: NDArray[np.uint64]) -> int:
        """Return how many leading blocks of a prompt are held; hold them all from now on."""
        size = self._block_tokens
        blocks = len(tokens) // size
        prefixes = [tokens[: size * (n + 1)].tobytes() for n in range(blocks)]
        hits = sum(
            1 for _ in takewhile(lambda n: n < blocks and prefixes[n] in self._held, count())
        )
        self._held.update(prefixes)
        return hits


def predicted_blocks(request: RecordedRequest, block_tokens: int, trace_block: int = 64) -> int:
    """Return how many blocks the recorded graph says are held: those whole in the known ones."""
    known_tokens = min(request.known_blocks * trace_block, request.input_tokens)
    return known_tokens // block_tokens
