"""What is said of several servers: how sessions are shared out among them, and what each served."""

from collections.abc import Mapping, Sequence

from agentx_replay.analysis.by_server import Served
from agentx_replay.report.numerals import rate
from agentx_replay.results.layout import Measurement
from agentx_replay.wording import counted


def uneven_share(level: int, servers: int) -> str | None:
    """Return how many sessions servers play at a time where they do not divide evenly."""
    most, over = divmod(level, servers)
    if not over:
        return None
    others = "the other" if servers - over == 1 else "the others"
    return (
        f"{over} of {servers} servers with {counted(most + 1, 'session')} at a time, {others} with "
        f"{most}"
    )


def served_lines(by_level: Mapping[Measurement, Sequence[Served]]) -> list[str]:
    """Return what each server was sent and answered, a line a level, in the order of the URLs."""
    if not by_level:
        return []
    width = max(len(str(level)) for level in by_level)
    return [
        "by server, in the order of --url, by concurrency (tokens of what ended well):",
        *(
            f"  {level!s:>{width}}: {_listed([f'{of.requests:,}' for of in served])} requests, "
            f"{_listed([rate(of.tokens) for of in served])} tokens"
            for level, served in sorted(by_level.items())
        ),
    ]


def _listed(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
