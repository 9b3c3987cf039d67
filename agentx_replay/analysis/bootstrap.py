"""What the lanes of one run say of its throughput: the total computed again from drawn lanes.

The unit is a lane over its whole window; lanes whose first session is the same form one cluster,
since they play the same work. Clusters are drawn with replacement (the cluster bootstrap of Davison
and Hinkley, *Bootstrap Methods and their Application*, 1997, section 3.8).

It says how far throughput depends on which sessions were played, and nothing of what moves all
lanes together: for that there are starts (``starts.py``).
"""

from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.responses import Floats, Responses
from agentx_replay.analysis.throughput import headline_of, tokens_inside
from agentx_replay.analysis.window import Window, measured, sent_in
from agentx_replay.results.sums import begins

REPLICATES = 2000
MIN_CLUSTERS = 10
SEED = 20261016


@dataclass(frozen=True, slots=True, eq=False)
class LaneTokens:
    """Lanes of each cluster, and its tokens that the headline counts: ``(clusters,)``."""

    lanes: Floats
    tokens: Floats


def lane_tokens(responses: Responses, window: Window, concurrency: int) -> LaneTokens:
    """Return a level's tokens by cluster.

    A lane that sent nothing is a cluster of its own: it is work of zero tokens, not no work.
    """
    order = np.lexsort((responses.play_number, responses.lane))
    first = order[begins(responses.lane[order])]
    names = -1 - np.arange(concurrency)
    names[responses.lane[first]] = responses.session[first]
    index = {name: number for number, name in enumerate(dict.fromkeys(names.tolist()))}
    cluster_of_lane = np.array([index[name] for name in names.tolist()])
    window_set = sent_in(responses, window)
    if headline_of(window.nominal_s) == "windowed":
        counted, of = tokens_inside(window_set, window), window_set
    else:
        of = window_set.where(measured(window_set))
        counted = of.prompt_tokens + of.completion_tokens
    tokens = np.bincount(cluster_of_lane[of.lane], weights=counted, minlength=len(index))
    lanes = np.bincount(cluster_of_lane).astype(np.float64)
    return LaneTokens(lanes, tokens.astype(np.float64))


def lanes_half_width(of: LaneTokens) -> float | None:
    """Return half the 95 % percentile interval of throughput over drawn clusters, relative to the
    throughput; None under 10 clusters.

    A replicate that drew clusters of more lanes than the level has is scaled down to them.
    """
    clusters = len(of.lanes)
    if clusters < MIN_CLUSTERS or not of.tokens.any():
        return None
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=REPLICATES)
    rates = (drawn @ of.tokens) / (drawn @ of.lanes)
    low, high = np.quantile(rates, (0.025, 0.975))
    return float((high - low) / 2 / (of.tokens.sum() / of.lanes.sum()))
