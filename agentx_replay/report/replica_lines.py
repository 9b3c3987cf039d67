"""What is said of a run on several servers before its first request."""

from collections.abc import Sequence


def uneven_shares(levels: Sequence[int], servers: int) -> list[str]:
    """Return a line for every level whose sessions do not divide evenly among the servers."""
    lines = []
    for level in levels:
        most, over = divmod(level, servers)
        if over:
            lines.append(
                f"  concurrency {level}: {over} of {servers} servers play {most + 1} sessions at a "
                f"time, the others {most}"
            )
    return lines
