"""How far a run's numbers can be relied on: what the replay kept of its recording, the client's own
error, what happened to events on their way, and what the server tells of itself.

A section without anything to show has no words. Not for judging (``analysis/findings.py``).
"""

from collections.abc import Callable, Iterator, Sequence

from agentx_replay.analysis.by_server import served_by_level, urls_of
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
from agentx_replay.analysis.instrument import CPU_SPAN_S, InstrumentReport
from agentx_replay.analysis.itl_error import ItlError
from agentx_replay.analysis.metrics import PointSummary
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.run import Run
from agentx_replay.analysis.server import CacheAgreement, Speculation
from agentx_replay.analysis.server_facts import ServerFacts
from agentx_replay.analysis.throughput import worth_explaining
from agentx_replay.report.numerals import (
    ABSENT,
    UNTRUSTED,
    milliseconds,
    percent,
    rate,
    share,
)
from agentx_replay.report.tables import Section
from agentx_replay.wording import counted

SPECULATION_FROM = 1.05
"""Tokens an event above which drafting (or batched events) is worth a section."""


def evidence_sections(run: Run) -> list[Section]:
    return [
        agreement_section(run.points),
        server_section(run.points),
        fidelity_section(run),
        counted_section(run.points),
        instrument_section(run),
        arrivals_section(run.points),
        window_section(run.points),
        servers_section(run),
    ]


def _facts(points: Sequence[Point], of: Callable[[Point], str | None]) -> list[tuple[str, str]]:
    """Return what is said of each point that there is something to say of."""
    return [(point.name, said) for point in points if (said := of(point)) is not None]


# --- fidelity ------------------------------------------------------------------------------------

_FIDELITY_HEADS = (
    "agents", "requests\nchecked", "prompt length\nexact, %", "prompts off\nin all, %",
    "output length\nexact, %", "reused, sent /\nrecorded, %", "late P50 / P99\nms",
    "plays alive\nof wanted", "resets, sent\n/ recorded",
)  # fmt: skip
_FIDELITY_NOTE = (
    "A play is one replay of a session on a lane, its subagents included; resets are prompts that "
    "keep less than half of the one before them. late: than the gap recorded. Reuse as recorded "
    "also counts prompts that a play did not send or not yet, such as those before its start. All "
    "words are in docs/glossary.md."
)


def fidelity_section(run: Run) -> Section:
    """Return how far the replay kept to its recording, level by level."""
    reports = [(point, point.fidelity) for point in run.points if point.fidelity is not None]
    if not reports:
        why = "No level has a fidelity report here; what agentx-replay report prints says why."
        return Section("Fidelity", lead=[why])
    broken = any(point.texts(Kind.BROKEN) for point in run.points)
    compared = all(report.conformity.prefixes is not None for _, report in reports)
    kept = (
        "the waits of its recording, and kept what it shares there with prompts its play had sent"
        if compared
        else "the waits of its recording; prefixes are not compared where live output was fed back"
    )
    return Section(
        "Fidelity",
        lead=() if broken else [f"Every request was sent in the order, with {kept}."],
        heads=_FIDELITY_HEADS,
        rows=[[point.name, *_kept(report)] for point, report in reports],
        facts=[(point.name, said) for point, report in reports for said in _beside(report)],
        notes=[_FIDELITY_NOTE],
    )


def _kept(of: Fidelity) -> list[str]:
    gaps, resets = of.conformity.gaps, of.conformity.resets_sent
    alive = (
        f"{of.trees_least}"
        if of.trees_least == of.trees_most
        else (f"{of.trees_least}–{of.trees_most}")
    )
    return [
        f"{of.conformity.requests:,}",
        _exact(of.prompt_lengths),
        ABSENT if of.prompt_lengths is None else f"{of.prompt_lengths.aggregate * 100:+.3f}",
        _exact(of.output_lengths),
        f"{share(of.reuse_sent)} / {share(of.reuse_recorded)}",
        ABSENT if gaps is None else f"{rate(gaps.p50_ms)} / {rate(gaps.p99_ms)}",
        f"{alive} of {of.trees_wanted}",
        f"{ABSENT if resets is None else resets} / {of.conformity.resets_recorded}",
    ]


def _exact(lengths: LengthErrors | None) -> str:
    return ABSENT if lengths is None else f"{lengths.share_exact * 100:.1f}"


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


def counted_section(points: Sequence[Point]) -> Section:
    """Return what was clamped, dropped, repeated or skipped."""
    facts = _facts(points, lambda point: counted_line(point.fidelity))
    return Section("Clamped, dropped, repeated or skipped", facts=facts, rank=3)


def counted_line(fidelity: Fidelity | None) -> str | None:
    if fidelity is None:
        return None
    of = fidelity.conformity
    counts = (
        (fidelity.plays - fidelity.sessions, "play repeats a session", "plays repeat a session"),
        (
            fidelity.raised_outputs,
            "output of no token asked as 1",
            "outputs of no token asked as 1",
        ),
        (
            fidelity.lengthened_prompts,
            "prompt lengthened to what the chat template costs",
            "prompts lengthened to what the chat template costs",
        ),
        (of.repeated_prompts, "prompt sent again whole", "prompts sent again whole"),
        (
            of.dropped_requests,
            "request dropped by the scenario's reading",
            "requests dropped by the scenario's reading",
        ),
        (
            of.abandoned_requests,
            "request not sent after an overflow",
            "requests not sent after an overflow",
        ),
        (of.negative_gaps, "negative gap taken as 0", "negative gaps taken as 0"),
        (
            of.missing_durations,
            "duration missing and taken as 0",
            "durations missing and taken as 0",
        ),
        (of.short_block_lists, "block list too short", "block lists too short"),
        (of.empty_subagents, "subagent without a request", "subagents without a request"),
        (
            of.unawaited_conversations,
            "background subagent (never joined)",
            "background subagents (never joined)",
        ),
    )
    parts = [counted(number, *words) for number, *words in counts if number]
    system_s, tree_s = fidelity.system_skipped_s or 0.0, fidelity.tree_skipped_s or 0.0
    if system_s or tree_s:
        parts.append(
            f"idle skipped: {system_s:,.1f} s by all lanes together, {tree_s:,.1f} s by single "
            "sessions"
        )
    return "; ".join(parts) or None


# --- the client's own error ----------------------------------------------------------------------

_INSTRUMENT_HEADS = (
    "agents", "send lag\nP99 ms", "loop lag\nP99 ms", "timestamps\nby the",
    "P90 ITL\ncould move by", "P90 TTFT\ncould move by", "upper bounds\nof timestamps",
    "busiest worker,\nof a core", "token ITL\ntrusted", "client\nsound",
)  # fmt: skip
_INSTRUMENT_NOTE = (
    "The client is taken as the bottleneck, and a level as not valid, where late timestamps "
    f"could move the P90 ITL or the P90 TTFT by more than {MAX_SHIFT:.1%}, the send lag P99 "
    f"is over {MAX_SEND_LAG_P99_S * 1e3:.0f} ms, a worker used over {MAX_CPU_SHARE:.0%} of a "
    f"core in any {CPU_SPAN_S} s, or, where the kernel did not take "
    f"the timestamps, a worker stood still during over {MAX_SHARE:.0%} of the responses."
)


def instrument_section(run: Run) -> Section:
    """Return the client's own error, level by level."""
    rows = [
        [point.name, *_instrument(point, point.instrument)]
        for point in run.points
        if point.instrument is not None
    ]
    heading = "The instrument's own error"
    if not rows:
        return Section(heading, lead=[_no_samples(run)])
    return Section(heading, heads=_INSTRUMENT_HEADS, rows=rows, notes=[_INSTRUMENT_NOTE])


def _instrument(point: Point, of: InstrumentReport) -> list[str]:
    return [
        milliseconds(of.send_lag_p99_s),
        milliseconds(of.loop_lag_p99_s),
        of.timestamps,
        percent(of.itl_shift),
        percent(of.ttft_shift),
        percent(of.late_event_share),
        percent(of.busiest_cpu_share),
        f"NO ({UNTRUSTED})" if point.has("token-itl-untrusted") else "yes",
        "NO" if any(saturation(of)) else "yes",
    ]


def _no_samples(run: Run) -> str:
    if all(point.facts.window is None for point in run.points):
        return "Nothing to say of the client: no window opened."
    target = run.sweep.get("target")
    if isinstance(target, dict) and target.get("kind") == "simulator in virtual time":
        return "No samples of the client: the run was in virtual time."
    return "No samples of the client were written in any window, so its error is not known."


def arrivals_section(points: Sequence[Point]) -> Section:
    """Return by how much what somebody gathered, and tokens that no event showed, may have moved
    latencies.
    """
    rows = [
        [point.name, *_arrivals(point.summary.itl_error)]
        for point in points
        if point.summary is not None
    ]
    heads = (
        "agents", "responses in\none read", "responses\ngathered", "most events\nin a read",
        "P90 ITL\ncould move by", "P90 TTFT could\nbe shorter by", "range of\nthe P90 ITL",
    )  # fmt: skip
    note = (
        "Gathered: somebody between server and client brought several events in one read. Range: "
        "by tokens that no event showed. A level is not valid where one of the last three is over "
        f"{MAX_ITL_ERROR:.1%}."
    )
    return Section("On the way", heads=heads, rows=rows, notes=[note] if rows else (), rank=3)


def _arrivals(of: ItlError) -> list[str]:
    return [
        str(of.in_one_arrival),
        str(of.gathered),
        str(of.most_events or ABSENT),
        *map(percent, (of.gathered_error, of.ttft_error, of.unshown_range)),
    ]


# --- throughput in the window --------------------------------------------------------------------


def window_section(points: Sequence[Point]) -> Section:
    """Return how throughput in the window differs from the overall, and why."""
    facts = _facts(points, _window)
    note = (
        "drain: came after the window; cut: in it, of cut responses; ramp: from opening to first "
        "send; end: from close to last end."
    )
    return Section(
        "Throughput in the window against the overall",
        facts=facts,
        notes=[note] if facts else (),
        rank=3,
    )


def _window(point: Point) -> str | None:
    of = point.summary.rates.difference if point.summary is not None else None
    if of is None or not worth_explaining(of):
        return None
    return (
        f"{of.relative:+.1%}: drain {counted(round(of.drained_tokens), 'token')}, cut "
        f"{counted(round(of.cut_tokens), 'token')}, ramp {of.ramp_s:.1f} s, end {of.drain_s:+.1f} s"
    )


# --- the server ----------------------------------------------------------------------------------


def servers_section(run: Run) -> Section:
    """Return what each of several servers was sent and answered."""
    urls = urls_of(run)
    rows = [
        [str(level), url, f"{of.requests:,}", rate(of.tokens)]
        for level, served in served_by_level(run).items()
        for url, of in zip(urls, served, strict=True)
    ]
    note = (
        "Requests sent to each server in the window, and the input and output tokens of those "
        "that ended well."
    )
    return Section(
        "By server",
        heads=("agents", "server", "requests", "tokens"),
        rows=rows,
        notes=[note] if rows else (),
        rank=3,
    )


def agreement_section(points: Sequence[Point]) -> Section:
    """Return how the server's cache counters and the client's count agree."""
    rows = [
        [point.name, *_agreement(point.agreement)]
        for point in points
        if point.agreement is not None
    ]
    heads = ("agents", "server's\ncounters", "usage of\nresponses", "which\nmay be",
             "prompts beyond\nthis run", "verdict")  # fmt: skip
    note = (
        "Share of prompt tokens found in the prefix cache, from the last scrape before the window "
        "to the last in it. A prompt under way at one of these, or in the 2 s before it, may have "
        "been counted on either side of it: the responses' share lies in that range. Prompts "
        "beyond this run: tokens the server looked up that this run cannot have sent."
    )
    return Section(
        "The cache, counted twice", heads=heads, rows=rows, notes=[note] if rows else (), rank=3
    )


def _agreement(of: CacheAgreement) -> list[str]:
    return [
        percent(of.server_hit),
        percent(of.client_hit),
        f"{of.least_hit:.1%} – {of.most_hit:.1%}",
        f"{of.foreign_share:+,.1%}",
        "DISAGREE" if any(cache_agreement(of)) else "agree",
    ]


def server_section(points: Sequence[Point]) -> Section:
    """Return what the server's own page tells: tiers, pool, queues, its own latencies."""
    facts = _facts(points, server_text)
    note = (
        "From the server's own counters over the window. Its TTFT and ITL are of its histograms, "
        "for all its clients, interpolated within a bucket: what they differ by from this client's "
        "came about on the network, in a router, in the detokeniser or in the client."
    )
    return Section(
        "What the server tells of itself", facts=facts, notes=[note] if facts else (), rank=3
    )


def server_text(point: Point) -> str | None:
    """Return what the server's page tells, None where it tells nothing."""
    of = point.server
    if of is None:
        return None
    parts = [*_cache(of), *_moved(of), *_waiting(of), *_latencies(of, point.summary)]
    return "; ".join(parts) or None


def _cache(of: ServerFacts) -> list[str]:
    parts = []
    if len(of.cached_from) > 1:
        tiers = ", ".join(f"{tier} {share(part)}" for tier, part in of.cached_from)
        parts.append(f"cached {share(sum(part for _, part in of.cached_from))}% ({tiers})")
    if of.pool_tokens is not None:
        pool = f"KV pool {rate(of.pool_tokens)} tokens"
        if of.longest_prompt_tokens:
            pool += f" = {of.pool_tokens / of.longest_prompt_tokens:,.1f} of the longest prompts"
        parts.append(pool)
    if of.host_usage is not None:
        parts.append(f"host tier at most {share(of.host_usage)}% in use")
    return parts


def _moved(of: ServerFacts) -> list[str]:
    moved = (("loaded from", of.loaded_bytes), ("stored to", of.stored_bytes))
    return [f"{rate(told / 1e9)} GB {what} other tiers" for what, told in moved if told is not None]


def _waiting(of: ServerFacts) -> list[str]:
    waiting = ", ".join(f"{reason} {rate(mean)}" for reason, mean in of.waiting_for)
    return [f"waiting on average: {waiting}"] if waiting else []


def _latencies(of: ServerFacts, summary: PointSummary | None) -> list[str]:
    ttft, itl = (summary.ttft, summary.token_itl) if summary else (None, None)
    parts = []
    if of.ttft_p90_s is not None:
        here = rate(ttft.p90_s if ttft else None)
        parts.append(f"its TTFT P90 {rate(of.ttft_p90_s)} s, here {here}")
    if of.itl_p90_s is not None:
        here = milliseconds(itl.p90_s if itl else None)
        parts.append(f"its token ITL P90 {milliseconds(of.itl_p90_s)} ms, here {here}")
    if of.queue_p90_s is not None:
        parts.append(f"its queue P90 {rate(of.queue_p90_s)} s")
    return parts


def speculation_section(levels: Sequence[tuple[Point, Speculation | None]]) -> Section:
    """Return what speculative decoding brought, of the levels that show any."""
    rows = []
    for level, told in levels:
        per_event = level.profile.tokens_per_event if level.profile else None
        if told is not None or (per_event is not None and per_event >= SPECULATION_FROM):
            rows.append([level.name, *_speculation(per_event, told)])
    if not rows:
        return Section("Speculative decoding")
    heads = (
        "agents", "tokens per\nevent", "drafted per\ncycle", "tokens per\ncycle",
        "accepted by\nposition %", "last draft\npays below", "one more pays\nbelow, at most",
    )  # fmt: skip
    text = (
        "A cycle drafts some tokens and commits those accepted and one more. A draft token pays "
        "only while it lengthens the cycle by less than it lengthens what is committed."
    )
    return Section("Speculative decoding", lead=[text], heads=heads, rows=rows)


def _speculation(per_event: float | None, told: Speculation | None) -> list[str]:
    events = ABSENT if per_event is None else f"{per_event:.2f}"
    if told is None:
        return [events, *[ABSENT] * 5]
    pays = [
        ABSENT if value is None else f"+{value:.1%} cycle time"
        for value in (told.last_pays_below, told.next_pays_below_at_most)
    ]
    return [
        events,
        ABSENT if told.drafted_tokens is None else f"{told.drafted_tokens:.2f}",
        f"{told.accept_length:.2f}",
        " ".join(f"{accepted * 100:.0f}" for accepted in told.accepted) or ABSENT,
        *pays,
    ]
