"""A corpus's statistics as sections and as plain values.

The numbers and their definitions are in ``traces/statistics.py``; nothing is computed here.
"""

from collections.abc import Sequence
from dataclasses import asdict

from agentx_replay.report.landmarks_section import landmarks_sections
from agentx_replay.report.tables import Section
from agentx_replay.text_format import counted
from agentx_replay.traces.landmarks import Landmarks
from agentx_replay.traces.statistics import CorpusStatistics

_NAME_COLUMNS = 23
_ODDITIES = {
    "missing_durations": "without a duration (taken as 0 s)",
    "zero_outputs": "without output (replayed with 1 token)",
    "negative_gaps": "begun before the one ahead had ended (gap 0)",
    "short_block_lists": "with a list of blocks that is too short (rest not shared)",
}
_DISTRIBUTIONS = {
    "requests_per_session": "requests per session",
    "input_tokens_per_request": "input tokens per request",
    "output_tokens_per_request": "output tokens per request",
    "peak_tokens_per_session": "peak context of a session",
    "gap_s": "end-to-start gap, s",
}
_COUNTS = {
    "requests": "requests", "subagents": "subagents", "input_tokens": "input",
    "output_tokens": "output", "peak_tokens": "peak", "resets": "resets", "edits": "edits",
}  # fmt: skip


def as_dict(statistics: CorpusStatistics, corpora: Sequence[Landmarks] = ()) -> dict[str, object]:
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
        "corpora": [asdict(each) for each in corpora],
    }


def statistics_sections(
    statistics: CorpusStatistics, corpora: Sequence[Landmarks] = ()
) -> list[Section]:
    """Return totals, distributions, where it lies among ``corpora``, sessions, and what was odd or
    left out.
    """
    total = statistics.total
    facts = [
        ("sessions", f"{len(statistics.sessions):,}"),
        ("requests", f"{total.requests:,}"),
        ("input tokens", f"{total.input_tokens:,}"),
        ("output tokens", f"{total.output_tokens:,}"),
        ("reuse, unlimited cache", f"{total.reuse:.2%} of blocks"),
        ("subagents", f"{total.subagents:,} in {counted(statistics.subagent_sessions, 'session')}"),
        ("resets, edits of the context", f"{total.resets:,}, {total.edits:,}"),
    ]
    distributions = {label: getattr(statistics, name) for name, label in _DISTRIBUTIONS.items()}
    return [
        Section(f"corpus {statistics.name}, fingerprint {statistics.fingerprint}", facts=facts),
        Section(
            "Distributions",
            heads=("of", "p50", "p90", "max"),
            rows=[
                [label, *(f"{value:,.1f}" for value in (of.p50, of.p90, of.max))]
                for label, of in distributions.items()
            ],
        ),
        *(landmarks_sections(corpora) if corpora else ()),
        Section(
            "Sessions",
            heads=("session", *_COUNTS.values(), "reuse"),
            rows=[
                [_cut(s.id), *(f"{getattr(s, name):,}" for name in _COUNTS), f"{s.reuse:.2%}"]
                for s in statistics.sessions
            ],
        ),
        Section("Odd or left out", reasons=_oddities(statistics)),
    ]


def _oddities(statistics: CorpusStatistics) -> list[str]:
    odd = [(getattr(statistics.notes, name), what) for name, what in _ODDITIES.items()]
    lines = [f"{counted(number, 'request')} {what}" for number, what in odd if number]
    lines += [
        f"{counted(number, 'field')} {key!r} not known, ignored"
        for key, number in statistics.notes.unknown_keys
    ]
    lines += [f"near-duplicates: {', '.join(family)}" for family in statistics.families]
    return lines + [f"left out: {reason}" for _, reason in statistics.skipped]


def _cut(text: str) -> str:
    return text if len(text) <= _NAME_COLUMNS else f"{text[: _NAME_COLUMNS - 1]}…"
