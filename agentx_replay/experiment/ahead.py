"""The next play of every lane, made ready by a thread before a lane needs it.

Building a large session's graph and laying out its prompts takes tens of milliseconds, in which
no token would be stamped. The thread hands the interpreter over every 0.2 ms while it works.
What it makes ready stays where plan and prompts keep it; here nothing is kept.
"""

import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.replay.lane import PromptSources
from agentx_replay.replay.ports import PromptSource

_SWITCH_S = 200e-6
_Next = tuple[int, int]


@contextmanager
def prepared_ahead(plan: Plan, prompts: PromptSources) -> Iterator[PromptSources]:
    """Give ``prompts`` that, when a lane begins a play, have its next one made ready."""
    wanted: queue.SimpleQueue[_Next | None] = queue.SimpleQueue()
    over = threading.Event()

    def source(planned: PlannedPlay, lane: int, ordinal: int) -> PromptSource:
        wanted.put((lane, ordinal + 1))
        return prompts(planned, lane, ordinal)

    def prepare() -> None:
        while (following := wanted.get()) is not None and not over.is_set():
            lane, ordinal = following
            prompts(plan.play(lane, ordinal), lane, ordinal)

    thread = threading.Thread(target=prepare, name="ahead", daemon=True)
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    thread.start()
    try:
        yield source
    finally:
        over.set()
        wanted.put(None)
        thread.join()
        sys.setswitchinterval(usual_s)
