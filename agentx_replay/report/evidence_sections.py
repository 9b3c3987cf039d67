"""How far a run's numbers can be relied on: what the replay kept of its recording, the client's own
error, what happened to events on their way, and what the server tells of itself.

A section without anything to show has no words. Not for judging (``analysis/findings.py``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentx_replay.analysis.client_lag import CPU_SPAN_S
from agentx_replay.analysis.fidelity import Fidelity, LengthErrors
from agentx_replay.analysis.findings import (
    MAX_CPU_SHARE,
    MAX_ITL_ERROR,
    MAX_SEND_LAG_P99_S,
    MAX_SHARE,
    MAX_SHIFT,
    Kind,
    cache_agreement,
    saturation,
)
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run, served_by_level, urls_of
from agentx_replay.analysis.server import ServerFacts, Speculation
from agentx_replay.analysis.throughput import worth_explaining
from agentx_replay.report.machine_sections import machines_section
from agentx_replay.report.numerals import (
    ABSENT,
    UNTRUSTED,
    milliseconds,
    percent,
    rate,
    share,
)
from agentx_replay.report.tables import Section
from agentx_replay.text_format import counted

SPECULATION_FROM = 1.05
"""Tokens an event above which drafting (or batched events) is worth a section."""
Columns = Mapping[str, Callable[[Any], str]]
"""By heading, what is said of a level."""


def evidence_sections(run: Run) -> list[Section]:
    points = run.points
    return [
        _levels("The cache, counted twice", points, "agreement", _AGREEMENT, _AGREEMENT_NOTE),
        _told("What the server tells of itself", points, server_text, _SERVER_NOTE),
        fidelity_section(run),
        _told("Clamped, dropped, repeated or skipped", points, counted_line),
        instrument_section(run),
        machines_section(points),
        _levels("On the way", points, "summary", _ARRIVALS, _ARRIVALS_NOTE),
        window_section(points),
        servers_section(run),
    ]


def _levels(
    heading: str, points: Sequence[Point], name: str, columns: Columns, note: str
) -> Section:
    """Return a row for each point that has what is called ``name``."""
    found = [(point, of) for point in points if (of := getattr(point, name)) is not None]
    rows = [[point.name, *(cell(of) for cell in columns.values())] for point, of in found]
    return Section(heading, heads=["agents", *columns], rows=rows, notes=[note], rank=3)


def _told(
    heading: str, points: Sequence[Point], of: Callable[[Point], str | None], note: str = ""
) -> Section:
    """Return what is said of each point that there is something to say of."""
    facts = [(point.name, said) for point in points if (said := of(point))]
    return Section(heading, facts=facts, notes=[note] if note else (), rank=3)


# --- fidelity ------------------------------------------------------------------------------------


def _exact(lengths: LengthErrors | None) -> str:
    return share(None if lengths is None else lengths.share_exact)


def _off(lengths: LengthErrors | None) -> str:
    return ABSENT if lengths is None else f"{lengths.aggregate * 100:+.3f}"


def _late(of: Fidelity) -> str:
    gaps = of.conformity.gaps
    return ABSENT if gaps is None else f"{rate(gaps.p50_ms)} / {rate(gaps.p99_ms)}"


def _alive(of: Fidelity) -> str:
    least, most = of.trees_least, of.trees_most
    return f"{least if least == most else f'{least}–{most}'} of {of.trees_wanted}"


def _resets(of: Fidelity) -> str:
    sent, recorded = of.conformity.resets_sent, of.conformity.resets_recorded
    return f"{ABSENT if sent is None else sent} / {recorded}"


_FIDELITY: Columns = {
    "requests\nchecked": lambda of: f"{of.conformity.requests:,}",
    "prompt length\nexact, %": lambda of: _exact(of.prompt_lengths),
    "prompts off\nin all, %": lambda of: _off(of.prompt_lengths),
    "output length\nexact, %": lambda of: _exact(of.output_lengths),
    "repeats, sent\n/ recorded, %": lambda of: (
        f"{share(of.reuse_sent)} / {share(of.reuse_recorded)}"
    ),
    "late P50 / P99\nms": _late,
    "plays alive\nof wanted": _alive,
    "resets, sent\n/ recorded": _resets,
}
_FIDELITY_NOTE = (
    "A play is one replay of a session on a lane, its subagents included; resets are prompts that "
    "keep less than half of the one before them. late: than the gap recorded. repeats: share of "
    "the prompt tokens that an earlier prompt of the play held, cached by the server or not; as "
    "recorded, also by prompts that the play did not send, such as those before its start. All "
    "words are in docs/glossary.md."
)


def fidelity_section(run: Run) -> Section:
    """Return how far the replay kept to its recording, level by level."""
    reports = [(point.name, point.fidelity) for point in run.points if point.fidelity is not None]
    if not reports:
        why = "No level has a fidelity report here; what agentx-replay report prints says why."
        return Section("Fidelity", lead=[why])
    broken = any(point.texts(Kind.BROKEN) for point in run.points)
    compared = all(of.conformity.prefixes is not None for _, of in reports)
    kept = (
        "the waits of its recording, and kept what it shares there with prompts its play had sent"
        if compared
        else "the waits of its recording; prefixes are not compared where live output was fed back"
    )
    return Section(
        "Fidelity",
        lead=() if broken else [f"Every request was sent in the order, with {kept}."],
        heads=["agents", *_FIDELITY],
        rows=[[name, *(cell(of) for cell in _FIDELITY.values())] for name, of in reports],
        facts=[(name, said) for name, of in reports for said in _beside(of)],
        notes=[_FIDELITY_NOTE],
    )


def replay_exact(of: Fidelity) -> bool:
    """Whether every length that is known was exact; rules that were broken are findings."""
    lengths = (of.prompt_lengths, of.output_lengths)
    return all(each is None or each.share_exact == 1.0 for each in lengths)


def _beside(of: Fidelity) -> Iterator[str]:
    for what, lengths in (("prompt", of.prompt_lengths), ("output", of.output_lengths)):
        if lengths is not None and lengths.share_exact < 1.0:
            yield f"{what} lengths off by {lengths.least:+d} to {lengths.greatest:+d} tokens"
    if of.conformity.prefixes is None:
        yield f"answers fed back: {of.answers_fed_back} of {of.answers_due}"


def counted_line(point: Point) -> str:
    """Return what was clamped, dropped, repeated or skipped at a level."""
    fidelity = point.fidelity
    if fidelity is None:
        return ""
    of = fidelity.conformity
    counts = {
        "plays that repeat a session": fidelity.plays - fidelity.sessions,
        "outputs of no token asked as 1": fidelity.raised_outputs,
        "prompts lengthened to what the chat template costs": fidelity.lengthened_prompts,
        "prompts sent again whole": of.repeated_prompts,
        "requests dropped by the scenario's reading": of.dropped_requests,
        "requests not sent after an overflow": of.abandoned_requests,
        "negative gaps taken as 0": of.negative_gaps,
        "missing durations taken as 0": of.missing_durations,
        "block lists too short": of.short_block_lists,
        "subagents without a request": of.empty_subagents,
        "background subagents (never joined)": of.unawaited_conversations,
    }
    parts = [f"{what}: {number:,}" for what, number in counts.items() if number]
    system_s, tree_s = fidelity.system_skipped_s or 0.0, fidelity.session_skipped_s or 0.0
    if system_s or tree_s:
        parts.append(
            f"idle skipped: {system_s:,.1f} s by all lanes together, {tree_s:,.1f} s by single "
            "sessions"
        )
    return "; ".join(parts)


# --- the client, and the way to it ---------------------------------------------------------------

_INSTRUMENT: Columns = {
    "send lag\nP99 ms": lambda of: milliseconds(of.send_lag_p99_s),
    "loop lag\nP99 ms": lambda of: milliseconds(of.loop_lag_p99_s),
    "timestamps\nby the": lambda of: of.timestamps,
    "P90 ITL\ncould move by": lambda of: percent(of.itl_shift),
    "P90 TTFT\ncould move by": lambda of: percent(of.ttft_shift),
    "events read\ntoo late": lambda of: percent(of.late_event_share),
    "busiest worker,\nof a core": lambda of: percent(of.busiest_cpu_share),
    "client\nsound": lambda of: "NO" if any(saturation(of)) else "yes",
}
_INSTRUMENT_NOTE = (
    "The client is taken as the bottleneck, and a level as not valid, where late timestamps "
    f"could move the P90 ITL or the P90 TTFT by more than {MAX_SHIFT:.1%}, the send lag P99 "
    f"is over {MAX_SEND_LAG_P99_S * 1e3:.0f} ms, a worker used over {MAX_CPU_SHARE:.0%} of a "
    f"core in any {CPU_SPAN_S} s, or, where the kernel did not take "
    f"the timestamps, a worker stood still during over {MAX_SHARE:.0%} of the responses. Events "
    "read too late: token events that arrived at an unknown moment before this client read them."
)


def instrument_section(run: Run) -> Section:
    """Return the client's own error, level by level."""
    measured = [point for point in run.points if point.instrument is not None]
    heading = "The instrument's own error"
    if not measured:
        return Section(heading, lead=[_no_samples(run)])
    rows = [
        [
            point.name,
            *(cell(point.instrument) for cell in _INSTRUMENT.values()),
            f"NO ({UNTRUSTED})" if point.has("token-itl-untrusted") else "yes",
        ]
        for point in measured
    ]
    heads = ["agents", *_INSTRUMENT, "token ITL\ntrusted"]
    return Section(heading, heads=heads, rows=rows, notes=[_INSTRUMENT_NOTE])


def _no_samples(run: Run) -> str:
    if all(point.facts.window is None for point in run.points):
        return "Nothing to say of the client: no window opened."
    target = run.sweep.get("target")
    if isinstance(target, dict) and target.get("kind") == "simulator in virtual time":
        return "No samples of the client: the run was in virtual time."
    return "No samples of the client were written in any window, so its error is not known."


_ARRIVALS: Columns = {
    "responses in\none read": lambda of: str(of.itl_error.in_one_arrival),
    "responses\ngathered": lambda of: str(of.itl_error.gathered),
    "most events\nin a read": lambda of: str(of.itl_error.most_events or ABSENT),
    "P90 ITL\ncould move by": lambda of: percent(of.itl_error.gathered_error),
    "P90 TTFT could\nbe shorter by": lambda of: percent(of.itl_error.ttft_error),
    "range of\nthe P90 ITL": lambda of: percent(of.itl_error.unshown_range),
}
_ARRIVALS_NOTE = (
    "Gathered: somebody between server and client brought several events in one read. Range: by "
    "tokens that no event showed. A level is not valid where one of the last three is over "
    f"{MAX_ITL_ERROR:.1%}."
)


def window_section(points: Sequence[Point]) -> Section:
    """Return how throughput in the window differs from the overall, and why."""
    note = (
        "drain: came after the window; cut: in it, of cut responses; ramp: from opening to first "
        "send; end: from close to last end."
    )
    return _told("Throughput in the window against the overall", points, _window, note)


def _window(point: Point) -> str:
    of = point.summary.rates.difference if point.summary is not None else None
    if of is None or not worth_explaining(of):
        return ""
    return (
        f"{of.relative:+.1%}: drain {counted(round(of.drained_tokens), 'token')}, cut "
        f"{counted(round(of.cut_tokens), 'token')}, ramp {of.ramp_s:.1f} s, end {of.drain_s:+.1f} s"
    )


# --- the server ----------------------------------------------------------------------------------


def servers_section(run: Run) -> Section:
    """Return what each of several servers was sent and answered."""
    rows = [
        [str(level), url, f"{of.requests:,}", rate(of.tokens)]
        for level, served in served_by_level(run).items()
        for url, of in zip(urls_of(run), served, strict=True)
    ]
    note = (
        "Requests sent to each server in the window, and the input and output tokens of those "
        "that ended well."
    )
    heads = ("agents", "server", "requests", "tokens")
    return Section("By server", heads=heads, rows=rows, notes=[note], rank=3)


_AGREEMENT: Columns = {
    "hit by the\ncounters": lambda of: percent(of.server_hit),
    "hit by\nusage": lambda of: percent(of.client_hit),
    "which\nmay be": lambda of: f"{of.least_hit:.1%} – {of.most_hit:.1%}",
    "prompts beyond\nthis run": lambda of: f"{of.foreign_share:+,.1%}",
    "verdict": lambda of: "DISAGREE" if any(cache_agreement(of)) else "agree",
}
_AGREEMENT_NOTE = (
    "hit: share of prompt tokens found in the prefix cache, from the last scrape before the window "
    "to the last in it; so other prompts than in the table of points. A prompt under way at one of "
    "these, or in the 2 s before it, may have been counted on either side of it: the responses' "
    "share lies in that range. Prompts beyond this run: tokens the server looked up that this run "
    "cannot have sent."
)
_SERVER_NOTE = (
    "From the server's own counters over the window. Its TTFT and ITL are of its histograms, for "
    "all its clients, interpolated within a bucket: what they differ by from this client's came "
    "about on the network, in a router, in the detokeniser or in the client."
)


def server_text(point: Point) -> str:
    """Return what the server's page tells: tiers, pool, queues, its own latencies."""
    of = point.server
    return "" if of is None else "; ".join([*_memory(of), *_latencies(of, point)])


def _memory(of: ServerFacts) -> Iterator[str]:
    if len(of.cached_from) > 1:
        tiers = ", ".join(f"{tier} {share(part)}" for tier, part in of.cached_from)
        yield f"cached {share(sum(part for _, part in of.cached_from))}% ({tiers})"
    if of.pool_tokens is not None:
        longest = of.longest_prompt_tokens
        prompts = f" = {of.pool_tokens / longest:,.1f} of the longest prompts" if longest else ""
        yield f"KV pool {rate(of.pool_tokens)} tokens{prompts}"
    if of.host_usage is not None:
        yield f"host tier at most {share(of.host_usage)}% in use"
    for what, told in (("loaded from", of.loaded_bytes), ("stored to", of.stored_bytes)):
        if told is not None:
            yield f"{rate(told / 1e9)} GB {what} other tiers"


def _latencies(of: ServerFacts, point: Point) -> Iterator[str]:
    if of.waiting_for:
        waiting = ", ".join(f"{reason} {rate(mean)}" for reason, mean in of.waiting_for)
        yield f"waiting on average: {waiting}"
    summary = point.summary
    ttft, itl = (summary.ttft, summary.token_itl) if summary else (None, None)
    if of.ttft_p90_s is not None:
        here = rate(ttft.p90_s if ttft else None)
        yield f"its TTFT P90 {rate(of.ttft_p90_s)} s, here {here}"
    if of.itl_p90_s is not None:
        here = milliseconds(itl.p90_s if itl else None)
        yield f"its token ITL P90 {milliseconds(of.itl_p90_s)} ms, here {here}"
    if of.queue_p90_s is not None:
        yield f"its queue P90 {rate(of.queue_p90_s)} s"


_SPECULATION: Columns = {
    "drafted per\ncycle": lambda of: _two_digits(of.drafted_tokens),
    "tokens per\ncycle": lambda of: _two_digits(of.accept_length),
    "accepted by\nposition %": lambda of: " ".join(f"{p * 100:.0f}" for p in of.accepted) or ABSENT,
    "last draft\npays below": lambda of: _longer(of.last_pays_below),
    "one more pays\nbelow, at most": lambda of: _longer(of.next_pays_below_at_most),
}


def speculation_section(levels: Sequence[tuple[Point, Speculation | None]]) -> Section:
    """Return what speculative decoding brought, of the levels that show any."""
    rows = []
    for level, told in levels:
        per_event = level.profile.tokens_per_event if level.profile else None
        if told is not None or (per_event or 0.0) >= SPECULATION_FROM:
            cells = [ABSENT if told is None else cell(told) for cell in _SPECULATION.values()]
            rows.append([level.name, _two_digits(per_event), *cells])
    if not rows:
        return Section("Speculative decoding")
    text = (
        "A cycle drafts some tokens and commits those accepted and one more. A draft token pays "
        "only while it lengthens the cycle by less than it lengthens what is committed."
    )
    heads = ["agents", "tokens per\nevent", *_SPECULATION]
    return Section("Speculative decoding", lead=[text], heads=heads, rows=rows)


def _two_digits(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def _longer(share_of_cycle: float | None) -> str:
    return ABSENT if share_of_cycle is None else f"+{share_of_cycle:.1%} cycle time"
