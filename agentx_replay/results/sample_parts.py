"""Samples that come slowly (the client's load, the server's metrics), safe within seconds.

While a level runs they are written in closed parts, as responses are; when it ends the parts
become one file. The whole file counts where there is one, so no crash loses or doubles a row.
Not for: when a part is due (``experiment/keeping.py``).
"""

import shutil
from pathlib import Path

import pyarrow as pa

from agentx_replay.results.durable import disk_faults_explained
from agentx_replay.results.mark import mark_of
from agentx_replay.results.parquet import read_parquet, write_parquet
from agentx_replay.results.schema import Column, arrow_schema


class SampleParts:
    """Writes one worker's samples as closed parts into ``directory``, which is in a level's.

    Raises ``UsageError`` where the directory cannot be made.
    """

    def __init__(self, directory: Path, columns: tuple[Column, ...], worker: int = 0) -> None:
        self._directory = directory
        self._schema = arrow_schema(columns, mark_of(directory.parent))
        self._worker = worker
        self._sequence = 0
        with disk_faults_explained(directory):
            directory.mkdir(parents=True, exist_ok=True)

    def write(self, samples: pa.Table) -> None:
        """Write one part, durable when this returns; nothing where there is no sample.

        Raises ``UsageError`` where the disk refuses; earlier parts stay.
        """
        if not len(samples):
            return
        path = self._directory / f"part-{self._worker:03d}-{self._sequence:06d}.parquet"
        with disk_faults_explained(path):
            write_parquet(path, self._schema, [samples])
        self._sequence += 1


def sample_files(whole: Path, parts: Path) -> list[Path]:
    """Return the files that hold the samples, whatever state a crash left them in."""
    return [whole] if whole.exists() else sorted(parts.glob("*.parquet"))


def compact_samples(whole: Path, parts: Path, columns: tuple[Column, ...]) -> None:
    """Turn the parts into the whole file; no file where there is no sample.

    Doing it again changes nothing. Raises ``UsageError`` where the disk refuses; the parts are
    still there then.
    """
    with disk_faults_explained(whole):
        files = sample_files(whole, parts)
        if files and not whole.exists():
            schema = arrow_schema(columns, mark_of(whole.parent))
            write_parquet(whole, schema, [read_parquet(files, columns).cast(schema)])
        if parts.exists():
            shutil.rmtree(parts)
