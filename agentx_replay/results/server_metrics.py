"""What engines say about themselves: the lines of their pages, and the file that keeps samples.

Each name that is known (``server_names.py``) has one meaning or more; the file keeps both, and the
engine's value. Fetching is in ``endpoint/scrape.py``, what follows from the samples in
``analysis/server.py``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from agentx_replay.results.schema import SERVER
from agentx_replay.results.server_names import NAMES, Metric
from agentx_replay.secret_texts import without_secrets

_BY_NAME: dict[str, list[tuple[Metric, str]]] = {}
for _metric, _name, _labels in NAMES:
    _BY_NAME.setdefault(_name, []).append((_metric, _labels))


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a metrics page: its meaning, name, and labels as they were told."""

    metric: Metric
    name: str
    labels: str


_NAME = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)")
_REST = re.compile(
    r"""(?:\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\}\s*|\s+)  # labels; texts hold what they like
    ([-+]?[0-9.][0-9.eE+-]*)(?!\S)              # a finite number; a time or exemplar may follow
    """,
    re.VERBOSE,
)


def known_samples(lines: Iterable[str]) -> Iterator[tuple[Series, float]]:
    """Yield what is known among lines of the Prometheus text format; other lines are passed over.

    A value that is no finite number (an engine that has nothing to say yet), below 0 or above 2⁵³
    is left out: all that is known are counts, shares and means. A parser
    of our own, because it works line by line, so that the closed loop is never kept waiting for a
    whole page, and because one bad line must not cost the others.
    """
    for line in lines:
        name = _NAME.match(line)
        meanings = _BY_NAME.get(name[1]) if name else None
        if name is None or meanings is None:
            continue
        rest = _REST.match(line, name.end())
        value = _number(rest[2]) if rest else None
        if rest is None or value is None:
            continue
        labels = (rest[1] or "").strip()
        for metric, needed in meanings:
            if needed in labels:
                yield Series(metric, name[1], labels), value


GREATEST_VALUE = 2.0**53
"""Above it no count is exact; no engine has come to it."""


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value <= GREATEST_VALUE else None


class ServerSamples:
    """Passes on the known samples of metrics pages, as rows of ``SERVER``.

    Of a series that a page tells twice the first is kept: the second is no later value.
    ``secrets`` are texts that no label brings into the file.
    """

    def __init__(
        self, keep: Callable[[tuple[Any, ...]], None], secrets: Collection[str] = ()
    ) -> None:
        self._keep = keep
        self._secrets = secrets
        self._last_ns: dict[tuple[str, Series], int] = {}
        self._labels: dict[str, str] = {}

    def add(self, endpoint: str, at_ns: int, lines: Iterable[str]) -> None:
        """Take lines of a page, or some of them, whose answer had come at ``at_ns``."""
        for series, value in known_samples(lines):
            if self._last_ns.get((endpoint, series)) == at_ns:
                continue
            self._last_ns[endpoint, series] = at_ns
            if series.labels not in self._labels:
                self._labels[series.labels] = without_secrets(series.labels, self._secrets)
            labels = self._labels[series.labels]
            self._keep((at_ns, endpoint, series.metric.value, series.name, labels, value))


def read_server_metrics(point: Path) -> pa.Table:
    """Return the samples of a point, as far as they were written; empty where none were taken."""
    return SERVER.read(point)
