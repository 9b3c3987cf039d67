"""What a person sees while a level runs: one live line in a terminal, a line now and then else.

Everything goes to standard error, so that standard output holds results alone.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from agentx_replay.replay.driver import Progress, Stage
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.results.recent import Snapshot

PLAIN_EVERY_S = 30.0
_LIVE_COLUMNS = 100
"""A line that is replaced in place must not wrap; one that stays may be as long as it is."""


def progress_line(
    concurrency: int, progress: Progress, recent: Snapshot, load: ClientLoad, gpus: int | None
) -> str:
    """Return the state of a level in one line, every number with a unit."""
    left = f" {progress.left_s:.0f} s left" if progress.left_s is not None else ""
    parts = [
        f"c={concurrency} {progress.stage}{left}",
        f"{progress.live_plays} plays",
        f"{progress.in_flight} in flight",
    ]
    if recent.ended:
        unit = "tok/s" if gpus is None else "tok/s/GPU"
        parts.append(f"{recent.tokens_per_s / (gpus or 1):,.0f} {unit}")
    if recent.itl_p90_s is not None:
        parts.append(f"P90 ITL {recent.itl_p90_s * 1e3:.1f} ms")
    if recent.cache_hit is not None:
        parts.append(f"hit {recent.cache_hit:.1%}")
    if recent.failures:
        parts.append(", ".join(f"{count} {category}" for category, count in recent.failures))
    parts.append(f"client {load.cpu_share:.0%} CPU, lag {load.loop_lag_p99_ns / 1e6:.1f} ms")
    return " | ".join(parts)


def length_warning(errors: Sequence[int]) -> str | None:
    """Return what to say of the first prompt lengths that a server reports; None where all hold."""
    wrong = [error for error in errors if error]
    if not wrong:
        return None
    return (
        f"the server counts other prompt lengths than planned: {len(wrong)} of the first "
        f"{len(errors)} are off, by up to {max(wrong, key=abs):+,} tokens"
    )


class ProgressScreen:
    """The ``Screen`` of an experiment on a text stream."""

    def __init__(self, gpus: int | None, stream: TextIO = sys.stderr) -> None:
        self._gpus = gpus
        self._stream = stream
        self._live = stream.isatty()
        self._concurrency = 0
        self._shown_s = float("-inf")
        self._stage: Stage | None = None
        self._lengths_told = False

    def say(self, line: str) -> None:
        """Show a line that stays."""
        self._write(f"\r\x1b[K{line}\n" if self._live else f"{line}\n")

    def level_begins(self, concurrency: int) -> None:
        """Say that a level begins."""
        self._concurrency = concurrency
        self._shown_s, self._stage, self._lengths_told = float("-inf"), None, False

    def show(self, progress: Progress, recent: Snapshot, load: ClientLoad) -> None:
        """Show where the level is: in place in a terminal, else on a change and every 30 s."""
        warning = length_warning(recent.length_errors)
        if warning is not None and not self._lengths_told:
            self._lengths_told = True
            self.say(warning)
        line = progress_line(self._concurrency, progress, recent, load, self._gpus)
        if self._live:
            self._write(f"\r\x1b[K{line[:_LIVE_COLUMNS]}")
            return
        now_s = time.monotonic()
        if progress.stage is not self._stage or now_s - self._shown_s >= PLAIN_EVERY_S:
            self._stage, self._shown_s = progress.stage, now_s
            self._write(f"{line}\n")

    def level_ended(self, line: str) -> None:
        """Say how a level went."""
        self.say(line)

    def _write(self, text: str) -> None:
        """Write where somebody looks: a terminal that was closed is no reason to stop measuring."""
        with suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
