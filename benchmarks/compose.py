"""What a prompt costs to build: one turn more on a long prompt, and text that is all new.

Run ``python benchmarks/compose.py``. New text is compared, in the same run, to plain numpy doing
the same look-ups: drawing the same indices, ``table[indices]`` or ``table.take(indices)``, and
``tobytes()``. Times are CPU times of this process; each figure is the median of ``ROUNDS``.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import lay_out
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import BlockText, chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.traces.model import NO_BLOCK, BlockTrie, RecordedRequest, Session

ROUNDS = 15
BLOCK = 64
PROMPT_TOKENS = 140_000
TURN_TOKENS = 700
TURNS = 15
MOST_EXTEND_MS = 1.0
MOST_RATIO = 1.2


def growing_session() -> Session:
    """Return one stream: a prompt of 140k tokens and then turns of 700."""
    requests = []
    for turn in range(TURNS + 1):
        tokens = PROMPT_TOKENS + TURN_TOKENS * turn
        known = (tokens - TURN_TOKENS) // BLOCK if turn else 0
        requests.append(
            RecordedRequest(
                index=turn,
                recorded_order=turn,
                t_s=float(turn),
                start_s=float(turn),
                duration_s=None,
                think_time_s=None,
                model="m",
                input_tokens=tokens,
                output_tokens=300,
                tip_block=tokens // BLOCK - 1,
                block_count=tokens // BLOCK,
                known_blocks=known,
                first_new_block=known,
            )
        )
    blocks = requests[-1].block_count
    parent = np.arange(NO_BLOCK, blocks - 1, dtype=np.int32)
    trie = BlockTrie(parent, np.zeros(blocks, np.int32))
    return Session("long", BLOCK, 12_000, 2_000, tuple(requests), trie)


def cpu_s(call: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time_ns()
    call()
    return (time.process_time_ns() - start) / 1e9


def new_play(session: Session, ordinal: int) -> PlayComposer:
    """Return a play that has sent nothing."""
    layout = lay_out(session, CHATML)
    keys = LevelKeys("benchmark", 1, 1)
    return PlayComposer(layout, chat_wording(builtin_vocabulary()), keys, lane=0, ordinal=ordinal)


def extend_ms(session: Session) -> list[float]:
    """Return the CPU ms of each turn after the first prompt."""
    play = new_play(session, 0)
    first, *turns = session.requests()
    play.prompt(0, first).messages_json()
    return [1e3 * cpu_s(partial(send, play, turn)) for turn in turns]


def send(play: PlayComposer, request: RecordedRequest) -> bytes:
    """Return the bytes of a request of the one stream."""
    return play.prompt(0, request).messages_json()


def compare_new_text(session: Session) -> dict[str, float]:
    """Return the median CPU ns a token of a first prompt, ours and by plain numpy, interleaved."""
    vocabulary = builtin_vocabulary()
    draw = BlockText(vocabulary.table, BLOCK).word_indices
    ids = np.random.default_rng(1).integers(0, 2**63, PROMPT_TOKENS // BLOCK, dtype=np.uint64)
    table, first = vocabulary.table, session.requests()[0]
    plays = [new_play(session, ordinal) for ordinal in range(ROUNDS)]
    indices = draw(ids).astype(np.intp)
    found: dict[str, list[float]] = {}
    for play in plays:
        calls: dict[str, Callable[[], object]] = {
            "ours, the whole prompt with its messages": partial(send, play, first),
            "plain, indices drawn, table[indices]": lambda: table[draw(ids)].tobytes(),
            "plain, indices drawn, table.take": lambda: table.take(draw(ids), axis=0).tobytes(),
            "plain, indices given, table[indices]": lambda: table[indices].tobytes(),
        }
        for name, call in calls.items():
            found.setdefault(name, []).append(1e9 * cpu_s(call) / PROMPT_TOKENS)
    return {name: median(values) for name, values in found.items()}


def main() -> None:
    """Print the figures and whether each keeps its bound."""
    session = growing_session()
    turn_ms = median(extend_ms(session))
    print(f"extend {PROMPT_TOKENS:,} tokens by {TURN_TOKENS}: {turn_ms:.3f} ms of CPU")
    print(f"  bound {MOST_EXTEND_MS} ms: {'kept' if turn_ms < MOST_EXTEND_MS else 'EXCEEDED'}")
    ours_ns, *plain = compare_new_text(session).items()
    print(f"{ours_ns[0]}: {ours_ns[1]:.2f} ns a token")
    for name, plain_ns in plain:
        ratio = ours_ns[1] / plain_ns
        print(f"{name}: {plain_ns:.2f} ns a token")
        print(f"  ratio {ratio:.2f}, bound {MOST_RATIO}: {verdict(ratio)}")


def verdict(ratio: float) -> str:
    """Say whether a ratio is within the bound."""
    return "kept" if ratio <= MOST_RATIO else "EXCEEDED"


if __name__ == "__main__":
    main()
