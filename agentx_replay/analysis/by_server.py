"""What each of several servers was sent in the window, and answered: whether the load was shared.

Not for metrics: those are of all servers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentx_replay.analysis.responses import Requests
from agentx_replay.analysis.run import Run, read_requests
from agentx_replay.analysis.window import Window, in_window_set, measured
from agentx_replay.results.layout import Measurement


@dataclass(frozen=True, slots=True)
class Served:
    """``requests`` sent to a server, and the input and output ``tokens`` of those that ended well,
    as it counts them.
    """

    requests: int
    tokens: int


def served(requests: Requests, window: Window, servers: int) -> tuple[Served, ...]:
    """Return what each of ``servers`` did, in their order."""
    sent = in_window_set(requests, window)
    well = sent & measured(requests)
    tokens = np.nan_to_num(requests.prompt_tokens) + np.nan_to_num(requests.completion_tokens)
    of = requests.replica
    return tuple(
        Served(int((sent & (of == each)).sum()), int(tokens[well & (of == each)].sum()))
        for each in range(servers)
    )


def urls_of(run: Run) -> Sequence[str]:
    """Return the servers of a run that has several, in their order; none where it has one."""
    target = run.sweep.get("target")
    url = target.get("url") if isinstance(target, dict) else None
    return list(map(str, url)) if isinstance(url, list) and len(url) > 1 else []


def served_by_level(run: Run) -> dict[Measurement, tuple[Served, ...]]:
    """Return what each server did at each level whose window opened; none for a single server."""
    servers = len(urls_of(run))
    if not servers:
        return {}
    return {
        point.measurement: served(read_requests(point.stored), window, servers)
        for point in run.points
        if point.stored is not None and (window := point.facts.window) is not None
    }
