"""What engines say about themselves: the lines of their pages, and the file that keeps samples.

Each name that is known (``server_names.py``) has one meaning or more; the file keeps both, and the
engine's value. Fetching is in ``endpoint/scrape.py``, what follows from the samples in
``analysis/server.py``.
"""

import re
from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from agentx_replay.results.layout import server_file, server_parts
from agentx_replay.results.parquet import read_parquet
from agentx_replay.results.sample_parts import sample_files
from agentx_replay.results.schema import SERVER, arrow_schema
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


@dataclass(slots=True)
class ServerSamples:
    """Samples as they come, 24 bytes each until they are taken.

    Of a series that a page tells twice the first is kept: the second is no later value.
    ``secrets`` are texts that no label brings into the file.
    """

    secrets: Collection[str] = ()
    _series: dict[tuple[str, Series], int] = field(default_factory=dict)
    _labels: list[str] = field(default_factory=list)
    _last_ns: "array[int]" = field(default_factory=lambda: array("q"))
    _at_ns: "array[int]" = field(default_factory=lambda: array("q"))
    _index: "array[int]" = field(default_factory=lambda: array("q"))
    _value: "array[float]" = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self._value)

    def add(self, endpoint: str, at_ns: int, series: Series, value: float) -> None:
        """Keep one sample; ``at_ns`` since the point's origin."""
        index = self._series.setdefault((endpoint, series), len(self._series))
        if index == len(self._last_ns):
            self._last_ns.append(at_ns)
            self._labels.append(without_secrets(series.labels, self.secrets))
        elif self._last_ns[index] == at_ns:
            return
        self._last_ns[index] = at_ns
        self._at_ns.append(at_ns)
        self._index.append(index)
        self._value.append(value)

    def take(self, concurrency: int, start: int = 1) -> pa.Table:
        """Return the samples since the last call as rows of ``SERVER``."""
        index = pa.array(np.array(self._index, np.int64))
        keys = list(self._series)

        def text(values: list[str]) -> pa.Array:
            return pa.array(values, pa.string()).take(index)

        columns = [
            pa.array(np.full(len(self), concurrency, np.int32)),
            pa.array(np.full(len(self), start, np.int32)),
            pa.array(np.array(self._at_ns, np.int64)),
            text([endpoint for endpoint, _ in keys]),
            text([series.metric.value for _, series in keys]),
            text([series.name for _, series in keys]),
            text(self._labels),
            pa.array(np.array(self._value, np.float64)),
        ]
        for kept in (self._at_ns, self._index, self._value):
            del kept[:]
        return pa.Table.from_arrays(columns, schema=arrow_schema(SERVER))


def read_server_metrics(point: Path) -> pa.Table:
    """Return the samples of a point, as far as they were written; empty where none were taken."""
    return read_parquet(sample_files(server_file(point), server_parts(point)), SERVER)
