"""What each of several servers was sent in the window, and answered: whether the load was shared.

Not for metrics: those are of all servers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from agentx_replay.analysis.run import Run
from agentx_replay.analysis.window import MEASURED_STATUSES, Window, happened_in
from agentx_replay.results.layout import Measurement

SERVED_COLUMNS = (
    "phase", "replica", "status", "send_ns", "prompt_tokens", "completion_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Served:
    """``requests`` sent to a server, and the input and output ``tokens`` of those that ended well,
    as it counts them.
    """

    requests: int
    tokens: int


def served(table: pa.Table, window: Window, servers: int) -> tuple[Served, ...]:
    """Return what each of ``servers`` did, in their order, from ``SERVED_COLUMNS``."""
    sent = happened_in(table["send_ns"].to_numpy(), window)
    sent &= np.array(table["phase"].to_pylist(), np.str_) == "window"
    well = sent & np.isin(np.array(table["status"].to_pylist(), np.str_), MEASURED_STATUSES)
    replica = table["replica"].to_numpy()
    tokens = sum(
        table[name].fill_null(0).to_numpy() for name in ("prompt_tokens", "completion_tokens")
    )
    return tuple(
        Served(
            requests=int((sent & (replica == server)).sum()),
            tokens=int(tokens[well & (replica == server)].sum()),
        )
        for server in range(servers)
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
        level.point.measurement: served(level.stored.requests(SERVED_COLUMNS), window, servers)
        for level in run.levels
        if (window := level.point.facts.window) is not None
    }
