"""A corpus's statistics as plain text for a terminal and as plain values for JSON.

The numbers and their definitions are in ``traces/statistics.py``; nothing is computed here.
"""

from dataclasses import asdict
from textwrap import wrap

from agentx_replay.traces.statistics import CorpusStatistics, Percentiles, SessionStatistics
from agentx_replay.wording import counted

_LABEL_COLUMNS = 30
_SESSION_COLUMNS = 24
_COLUMNS = 100

_ODDITIES = {
    "missing_durations": "without a duration (taken as 0 s)",
    "zero_outputs": "without output (replayed with 1 token)",
    "negative_gaps": "begun before the one ahead had ended (gap 0)",
    "short_block_lists": "with a list of blocks that is too short (rest not shared)",
}


def statistics_lines(statistics: CorpusStatistics) -> list[str]:
    """Return the lines of ``traces stats``, none wider than 100 columns."""
    return [
        *_totals(statistics),
        "",
        *_distributions(statistics),
        "",
        *_sessions(statistics),
        *_oddities(statistics),
    ]


def as_dict(statistics: CorpusStatistics) -> dict[str, object]:
    """Return all of the statistics, sums and ratios included, as values that JSON can hold."""
    of = asdict(statistics)
    notes, total = of.pop("notes"), of.pop("total")
    sums = ("requests", "input_tokens", "output_tokens", "subagents", "resets", "edits")
    return {
        **of,
        **{name: notes[name] for name in _ODDITIES},
        **{name: total[name] for name in sums},
        "reuse": statistics.total.reuse,
        "sessions": [{**asdict(s), "reuse": s.reuse} for s in statistics.sessions],
        "unknown_keys": dict(statistics.notes.unknown_keys),
    }


def _totals(statistics: CorpusStatistics) -> list[str]:
    total = statistics.total
    return [
        f"corpus {statistics.name}, fingerprint {statistics.fingerprint}",
        _line("sessions", f"{len(statistics.sessions):,}"),
        _line("requests", f"{total.requests:,}"),
        _line("input tokens", f"{total.input_tokens:,}"),
        _line("output tokens", f"{total.output_tokens:,}"),
        _line("reuse, unlimited cache", f"{total.reuse:.2%} of blocks"),
        _line(
            "subagents",
            f"{total.subagents:,} in {counted(statistics.subagent_sessions, 'session')}",
        ),
        _line("resets, edits of the context", f"{total.resets:,}, {total.edits:,}"),
    ]


def _distributions(statistics: CorpusStatistics) -> list[str]:
    return [
        _line("", f"{'p50':>12}{'p90':>12}{'max':>12}"),
        _percentiles("requests per session", statistics.requests_per_session),
        _percentiles("input tokens per request", statistics.input_tokens_per_request),
        _percentiles("output tokens per request", statistics.output_tokens_per_request),
        _percentiles("peak context of a session", statistics.peak_tokens_per_session),
        _percentiles("end-to-start gap, s", statistics.gap_s),
    ]


def _sessions(statistics: CorpusStatistics) -> list[str]:
    head = (
        f"{'session':<{_SESSION_COLUMNS}}{'requests':>9}{'subagents':>10}{'input':>13}{'output':>10}"
        f"{'peak':>9}{'reuse':>8}{'resets':>8}{'edits':>7}"
    )
    return [head, *(_session(session) for session in statistics.sessions)]


def _session(session: SessionStatistics) -> str:
    name = _cut(session.id, _SESSION_COLUMNS - 1)
    return (
        f"{name:<{_SESSION_COLUMNS}}{session.requests:>9,}{session.subagents:>10,}"
        f"{session.input_tokens:>13,}{session.output_tokens:>10,}{session.peak_tokens:>9,}"
        f"{session.reuse:>8.2%}{session.resets:>8,}{session.edits:>7,}"
    )


def _oddities(statistics: CorpusStatistics) -> list[str]:
    """Return a line for each kind of thing that was odd or left out, after an empty one."""
    odd = [(getattr(statistics.notes, name), what) for name, what in _ODDITIES.items()]
    lines = [f"{counted(number, 'request')} {what}" for number, what in odd if number]
    lines += [
        f"{counted(number, 'field')} {key!r} not known, ignored"
        for key, number in statistics.notes.unknown_keys
    ]
    lines += [f"near-duplicates: {', '.join(family)}" for family in statistics.families]
    lines += [f"left out: {reason}" for _, reason in statistics.skipped]
    return ["", *(part for line in lines for part in _wrapped(line))] if lines else []


def _wrapped(line: str) -> list[str]:
    return wrap(line, _COLUMNS, subsequent_indent="    ")


def _line(label: str, value: str) -> str:
    return f"{label:<{_LABEL_COLUMNS}}{value}"


def _percentiles(label: str, values: Percentiles) -> str:
    return _line(label, f"{values.p50:>12,.1f}{values.p90:>12,.1f}{values.max:>12,.1f}")


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…"
