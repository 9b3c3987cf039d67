"""What a person sees while a level runs: one live line in a terminal, a line now and then else.

Everything goes to standard error, so that standard output holds results alone.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from agentx_replay.replay.driver import Progress, Stage
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.results.recent import Snapshot
from agentx_replay.text_format import counted, lasting, wrapped

PLAIN_EVERY_S = 30.0
PLAIN_AT_FIRST_S = 5.0
"""In the first half minute of a stage, in which a person watches whether anything happens."""
_UNTOLD_COLUMNS = 80
"""The width of a terminal that does not tell its own."""
_BETWEEN = " | "


def progress_line(
    level: str,
    progress: Progress,
    recent: Snapshot,
    load: ClientLoad,
    gpus: int | None,
    sweep: str = "",
) -> str:
    """Return the state of a ``level``, and how long the ``sweep`` takes yet, in one line, every
    number with a unit, the least telling last.
    """
    parts = [f"{level} {_stage(progress)}{sweep}", f"{progress.in_flight} in flight"]
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
    parts.append(counted(progress.live_plays, "live session"))
    return _BETWEEN.join(parts)


def _stage(progress: Progress) -> str:
    """window 12 s left; warm-up, 3 of 12 primers; warm-up, 20 of 80 cache-pressure requests."""
    if progress.left_s is not None:
        return f"{progress.stage} {progress.left_s:.0f} s left"
    of = progress.warmed
    if of is None:
        return str(progress.stage)
    if of.primers_done < of.primers:
        return f"{progress.stage}, {of.primers_done:,} of {of.primers:,} primers"
    done = f"{of.cache_pressure_done:,} of {of.cache_pressure:,} cache-pressure requests"
    return f"{progress.stage}, {done}"


def fitted(line: str, columns: int) -> str:
    """Return a line without the last of its fields that do not fit into ``columns``.

    One that is replaced in place must not wrap; the last column stays free, as some terminals wrap
    on it.
    """
    while len(line) >= columns and _BETWEEN in line:
        line = line.rpartition(_BETWEEN)[0]
    return line[: max(columns - 1, 0)]


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
    """The ``Screen`` of an experiment on a text stream, standard error by default."""

    def __init__(self, gpus: int | None, stream: TextIO | None = None) -> None:
        self._gpus = gpus
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._left_open = False
        self._level = ""
        self._shown_s = float("-inf")
        self._stage: Stage | None = None
        self._stage_began_s = self._level_began_s = 0.0
        self._window_s, self._following = 0.0, 0
        self._beside_windows_s: list[float] = []
        self._lengths_told = False

    def say(self, line: str) -> None:
        """Show a line that stays, broken between words in a terminal."""
        self._clear()
        lines = wrapped(line, self._columns()) if self._live else [line]
        self._write("".join(f"{each}\n" for each in lines))

    def levels_left(self, levels: int, window_s: float) -> None:
        """Take so many windows, and what levels took beside theirs, for the time left."""
        self._following, self._window_s = levels - 1, window_s

    def level_begins(self, concurrency: int, start: int = 1, starts: int = 1) -> None:
        """Say that a level begins, at one of its ``starts``."""
        of = f", start {start} of {starts}" if starts > 1 else ""
        self._level = f"c={concurrency}{of}"
        self._shown_s, self._stage, self._lengths_told = float("-inf"), None, False
        self._level_began_s = time.monotonic()

    def show(self, progress: Progress, recent: Snapshot, load: ClientLoad) -> None:
        """Show where the level is: in place in a terminal, else on a change and every 30 s."""
        warning = length_warning(recent.length_errors)
        if warning is not None and not self._lengths_told:
            self._lengths_told = True
            self.say(warning)
        sweep = self._sweep_left(progress)
        line = progress_line(self._level, progress, recent, load, self._gpus, sweep)
        if self._live:
            self._clear()
            self._write(fitted(line, self._columns()))
            self._left_open = True
            return
        now_s = time.monotonic()
        if progress.stage is not self._stage:
            self._stage, self._stage_began_s = progress.stage, now_s
            self._shown_s = float("-inf")
        at_first = now_s - self._stage_began_s < PLAIN_EVERY_S
        if now_s - self._shown_s >= (PLAIN_AT_FIRST_S if at_first else PLAIN_EVERY_S):
            self._shown_s = now_s
            self._write(f"{line}\n")

    def level_ends(self) -> None:
        """Take the live line off the screen, so that nothing is written behind it."""
        took_s = time.monotonic() - self._level_began_s
        self._beside_windows_s.append(max(took_s - self._window_s, 0.0))
        self._clear()

    def _sweep_left(self, progress: Progress) -> str:
        """Return how long the sweep takes yet if levels follow; "at least" before the first has
        shown how long a warm-up takes.
        """
        if not self._following:
            return ""
        of_window = progress.left_s if progress.stage is Stage.WINDOW else None
        own_s = self._window_s if progress.stage is Stage.WARMUP else of_window or 0.0
        known = self._beside_windows_s
        each_s = self._window_s + (sum(known) / len(known) if known else 0.0)
        least = "" if known else "at least "
        return f", sweep {least}{lasting(own_s + self._following * each_s)}"

    def _clear(self) -> None:
        if self._left_open:
            self._left_open = False
            self._write("\r\x1b[K")

    def _columns(self) -> int:
        with suppress(OSError):  # a stream that is no terminal's, or a terminal that was closed
            return os.get_terminal_size(self._stream.fileno()).columns or _UNTOLD_COLUMNS
        return _UNTOLD_COLUMNS

    def _write(self, text: str) -> None:
        """Write where somebody looks: a terminal that was closed is no reason to stop measuring."""
        with suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
