"""Which session a lane's n-th play is: a function of lane and play number, never of speed."""

import numpy as np


def session_of(
    lane: int, play_number: int, *, lanes: int, sessions: int, seed: int, shuffled: bool = False
) -> int:
    """Return the index of the session that ``lane`` plays as its ``play_number``-th.

    Counting plays across lanes, q = lane + play number·lanes: the first ``sessions`` plays take the
    corpus in its order, or ``shuffled``; each later round is a shuffle of its own. (Without the
    shuffle, as many lanes as sessions would repeat one session a lane for ever.)
    """
    round_, place = divmod(lane + play_number * lanes, sessions)
    if round_ == 0 and not shuffled:
        return place
    return int(np.random.default_rng([seed, round_]).permutation(sessions)[place])
