"""What a prompt costs to build, and what composing holds.

One turn more on a long prompt, text that is all new, and the memory of a whole plan.

Run ``python benchmarks/compose.py``. New text is compared, in the same run, to plain numpy doing
the same look-ups: drawing the same indices, ``table[indices]`` or ``table.take(indices)``, and
``tobytes()``. Times are CPU times of this process; each figure is the median of ``ROUNDS``, each
ratio the median of those within one round, so that a machine busy for a moment is so for both.
"""

import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from agentx_replay.plan.conversations import build_graph
from agentx_replay.plan.graph import OFFICIAL
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys, counter_mixes
from agentx_replay.prompts.layout import Layout, lay_out
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import BlockText, chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.generate import LARGE, generate_corpus, write_corpus
from agentx_replay.traces.model import NO_BLOCK, BlockTrie, RecordedRequest, Session

ROUNDS = 15
BLOCK = 64
PROMPT_TOKENS = 140_000
TURN_TOKENS = 700
TURNS = 15
MOST_EXTEND_MS = 1.0
MOST_RATIO = 1.2
SESSIONS = 393
LIVE_PLAYS = 16
MOST_OVER_TEXT = 0.1
"""Block ids are 8 bytes for 64 words of 5, 2.5 %; the rest is what Python's objects weigh."""


def growing_session() -> Session:
    """Return one conversation: a prompt of 140k tokens and then turns of 700."""
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


def new_play(session: Session, play_number: int) -> PlayComposer:
    """Return a play that has sent nothing."""
    layout = lay_out(session, CHATML)
    keys = LevelKeys("benchmark", 1, 1)
    return PlayComposer(
        layout, chat_wording(builtin_vocabulary()), keys, lane=0, play_number=play_number
    )


def extend_ms(session: Session) -> list[float]:
    """Return the CPU ms of each turn after the first prompt."""
    play = new_play(session, 0)
    first, *turns = session.requests()
    play.prompt(0, first).messages_json()
    return [1e3 * cpu_s(partial(send, play, turn)) for turn in turns]


def send(play: PlayComposer, request: RecordedRequest) -> bytes:
    """Return the bytes of a request of the one conversation."""
    return play.prompt(0, request).messages_json()


def compare_new_text(session: Session) -> dict[str, list[float]]:
    """Return the CPU ns a token of a first prompt, ours and by plain numpy, round by round."""
    vocabulary = builtin_vocabulary()
    draw = BlockText(vocabulary.table, BLOCK).word_indices
    ids = np.random.default_rng(1).integers(0, 2**63, PROMPT_TOKENS // BLOCK, dtype=np.uint64)
    table, first = vocabulary.table, session.requests()[0]
    plays = [new_play(session, play_number) for play_number in range(ROUNDS)]
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
    return found


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes at their most: of the live plays' prompts, and of all the composing holds.

    ``over_text`` is the most by which the second was over the first at any request.
    """

    text: int
    held: int
    over_text: int
    sent: int


def plan_of(sessions: int) -> list[tuple[Layout, list[tuple[int, RecordedRequest, bool]]]]:
    """Return generated sessions, laid out, each with its requests in recorded order: conversation,
    request, and whether the conversation ends with it.
    """
    with TemporaryDirectory() as directory:
        file = Path(directory) / "large.jsonl.gz"
        write_corpus(generate_corpus(1, sessions, LARGE, "large"), file)
        corpus = read_corpus(file)
    return [(lay_out(session, CHATML), _in_order(session)) for session in corpus.sessions]


def _in_order(session: Session) -> list[tuple[int, RecordedRequest, bool]]:
    turns = [
        (conversation.index, turn.request, turn is conversation.turns[-1])
        for conversation in build_graph(session, OFFICIAL).conversations
        for turn in conversation.turns
    ]
    return sorted(turns, key=lambda turn: turn[1].recorded_order)


def held_by(plan: list[tuple[Layout, list[tuple[int, RecordedRequest, bool]]]]) -> Held:
    """Send every request of a plan, ``LIVE_PLAYS`` plays at a time, and watch what is held."""
    wording, keys = chat_wording(builtin_vocabulary()), LevelKeys("benchmark", 1, 1)
    counter_mixes(max(len(layout.blocks) for layout, _ in plan))  # shared by all plays
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    waiting = deque(enumerate(plan))
    live: deque[Iterator[int]] = deque()
    text: dict[int, int] = {}
    most = Held(0, 0, 0, 0)
    while waiting or live:
        if waiting and len(live) < LIVE_PLAYS:
            play_number, (layout, turns) = waiting.popleft()
            play = PlayComposer(layout, wording, keys, lane=0, play_number=play_number)
            live.append(_played(play_number, play, turns, text))
            continue
        sent = next(live[0], None)
        if sent is None:
            live.popleft()
            continue
        live.rotate(-1)
        held = tracemalloc.get_traced_memory()[0] - before
        now = sum(text.values())
        most = Held(
            max(most.text, now),
            max(most.held, held),
            max(most.over_text, held - now),
            most.sent + sent,
        )
    tracemalloc.stop()
    return most


def _played(
    play_number: int,
    play: PlayComposer,
    turns: list[tuple[int, RecordedRequest, bool]],
    text: dict[int, int],
) -> Iterator[int]:
    """Send a play's requests one by one; keep ``text`` at the bytes of its live prompts."""
    by_conversation: dict[int, int] = {}
    for conversation, request, ends in turns:
        size = len(play.prompt(conversation, request).messages_json())
        by_conversation[conversation] = size
        if ends:
            play.forget(conversation)
            del by_conversation[conversation]
        text[play_number] = sum(by_conversation.values())
        yield size
    del text[play_number]


def main() -> None:
    """Print the figures and whether each keeps its bound."""
    session = growing_session()
    turn_ms = median(extend_ms(session))
    print(f"extend {PROMPT_TOKENS:,} tokens by {TURN_TOKENS}: {turn_ms:.3f} ms of CPU")
    print(f"  bound {MOST_EXTEND_MS} ms: {'kept' if turn_ms < MOST_EXTEND_MS else 'EXCEEDED'}")
    ours_ns, *plain = compare_new_text(session).items()
    print(f"{ours_ns[0]}: {median(ours_ns[1]):.2f} ns a token")
    for name, plain_ns in plain:
        ratio = median(ours / plain for ours, plain in zip(ours_ns[1], plain_ns, strict=True))
        print(f"{name}: {median(plain_ns):.2f} ns a token")
        print(f"  ratio {ratio:.2f}, bound {MOST_RATIO}: {verdict(ratio)}")
    held = held_by(plan_of(SESSIONS))
    share = held.over_text / held.text
    print(f"{SESSIONS} sessions, {LIVE_PLAYS} plays live, {held.sent / 1e9:.1f} GB sent:")
    text_mb, held_mb = held.text / 1e6, held.held / 1e6
    print(f"  live prompts at most {text_mb:.1f} MB, all that is held {held_mb:.1f} MB")
    kept = "kept" if share <= MOST_OVER_TEXT else "EXCEEDED"
    print(
        f"  never over the live text by more than {share:.1%}, bound {MOST_OVER_TEXT:.0%}: {kept}"
    )


def verdict(ratio: float) -> str:
    """Say whether a ratio is within the bound."""
    return "kept" if ratio <= MOST_RATIO else "EXCEEDED"


if __name__ == "__main__":
    main()
