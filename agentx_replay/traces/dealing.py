"""An order of sessions in which the first N are like all of them, for every N."""

from collections.abc import Sequence

import numpy as np

from agentx_replay.traces.model import Session


def input_and_requests(session: Session) -> tuple[int, int]:
    requests = session.requests()
    return sum(request.input_tokens for request in requests), len(requests)


def balanced_order(sessions: Sequence[tuple[int, int]]) -> list[int]:
    """Return the order in which to deal sessions of (input tokens, requests), by index.

    By input tokens a third of them is medium, small and large; these come in turn, and of each
    third the session next that brings the tokens a session, the requests a session and the tokens
    a request of all that were dealt nearest to those of the whole.
    """
    sizes = np.array(sessions, float) / np.mean(sessions, axis=0)
    small, medium, large = np.array_split(np.argsort(sizes[:, 0], kind="stable"), 3)
    thirds, dealt, sums = [medium, small, large], list[int](), np.zeros(2)
    while len(dealt) < len(sessions):
        turn = len(dealt) % 3
        if not len(thirds[turn]):
            turn = max(range(3), key=lambda third: len(thirds[third]))
        means = (sums + sizes[thirds[turn]]) / (len(dealt) + 1)
        distances = np.abs(means - 1).sum(axis=1) + np.abs(means[:, 0] / means[:, 1] - 1)
        nearest = int(distances.argmin())
        dealt.append(int(thirds[turn][nearest]))
        sums += sizes[dealt[-1]]
        thirds[turn] = np.delete(thirds[turn], nearest)
    return dealt
