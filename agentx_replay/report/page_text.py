"""What the page says in words and tables. Everything that came from a server or a trace is escaped.

Not for figures (``page_curve.py``, ``page_level.py``), nor for the frame (``page.py``).
"""

import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from agentx_replay.analysis.by_server import served_by_level, urls_of
from agentx_replay.analysis.curve import Curve
from agentx_replay.analysis.fidelity import Fidelity, LengthErrors
from agentx_replay.analysis.findings import (
    MAX_CPU_SHARE,
    MAX_SEND_LAG_P99_S,
    MAX_SHARE,
    MAX_SHIFT,
    Kind,
    cache_agreement,
    saturation,
)
from agentx_replay.analysis.instrument import CPU_SPAN_S
from agentx_replay.analysis.point import Point, point_findings, run_findings
from agentx_replay.analysis.run import MeasuredLevel, Run
from agentx_replay.analysis.sensitivity import DEFINITIONS, Reading, reading_at
from agentx_replay.analysis.server import Speculation
from agentx_replay.report.disclosure_words import (
    client_words,
    prompts_words,
    rules_words,
    server_words,
)
from agentx_replay.report.fidelity_lines import answers_line
from agentx_replay.report.numerals import (
    ABSENT,
    NOT_REACHED,
    UNTRUSTED,
    bounds,
    rate,
    share,
    speed,
    target_note,
    throughput_unit,
)
from agentx_replay.report.point_notes import window_lines
from agentx_replay.report.points_table import DEFINITIONS as POINT_DEFINITIONS
from agentx_replay.report.start_lines import uncertainty
from agentx_replay.report.unmeasured import go_on_lines, unmeasured_lines
from agentx_replay.report.verdict_lines import (
    beside_text,
    comparability_lines,
    comparable_and_valid,
    finding_lines,
    throughput_names,
    valid_word,
    warnings_at,
)
from agentx_replay.wording import counted

SPECULATION_FROM = 1.05
"""Tokens an event above which drafting (or batched events) is worth a section."""

_SHORT_NAME = 16
"""Letters of a row's name that a phone shows beside its numbers without a break."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table of plain texts, wide ones to be scrolled; the first column names the row."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(text)}</td>" for text in row[1:])
        + "</tr>"
        for row in rows
    )
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    style = ' class="named"' if any(len(row[0]) > _SHORT_NAME for row in rows) else ""
    return (
        f'<div class="scroll" tabindex="0"><table{style}>{said}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def paragraphs(texts: Sequence[str], style: str = "") -> str:
    """Return plain texts as paragraphs."""
    opened = f'<p class="{style}">' if style else "<p>"
    return "".join(f"{opened}{escape(text)}</p>" for text in texts)


# --- the head ------------------------------------------------------------------------------------


def head(run: Run) -> str:
    """Return what was measured, and in one line each whether it is sound and comparable."""
    points = run.points
    target = _part(run.sweep, "target")
    what = target.get("model") or target.get("kind") or "a server"
    day = _started(run, "%Y-%m-%d %H:%M UTC") or "date unknown"
    gpus = "GPU count not given" if run.gpus is None else counted(run.gpus, "GPU")
    facts = [
        str(what),
        *_urls(target),
        gpus,
        f"scenario {_part(run.sweep, 'scenario').get('name', 'unknown')}",
        f"corpus {_part(run.sweep, 'corpus').get('name', 'unknown')}",
        day,
    ]
    items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f"<header><p class='eyebrow'>agentx-replay</p><h1>{escape(run.path.resolve().name)}</h1>"
        f'<ul class="facts">{items}</ul>{_verdicts(points)}</header>'
    )


def _urls(target: Mapping[str, Any]) -> list[str]:
    """Return where the server is, or the servers."""
    url = target.get("url") or "no wire"
    return [str(each) for each in url] if isinstance(url, list) else [str(url)]


def _started(run: Run, form: str) -> str | None:
    """Return when the run was begun, None where ``sweep.json`` does not say."""
    try:
        return time.strftime(form, time.gmtime(run.sweep["started_unix_s"]))
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _command(run: Run) -> str:
    command = run.sweep.get("command")
    return " ".join(map(str, command)) if isinstance(command, list) else "(not recorded)"


def _verdicts(points: Sequence[Point]) -> str:
    valid = sum(point.valid for point in points)
    all_valid = valid == len(points)
    what = "start" if any(point.measurement.start > 1 for point in points) else "level"
    badges = [
        (
            "good" if all_valid else "warn",
            f"{'✓' if all_valid else '!'} {valid} of {counted(len(points), what)} valid",
        )
    ]
    badges.append(
        ("good", "✓ comparable on the same corpus")
        if all(map(comparable_and_valid, points))
        else ("warn", "! not comparable")
        if not any(map(comparable_and_valid, points))
        else ("warn", "! not every level is comparable")
    )
    findings = run_findings(points)
    if any(finding.kind is Kind.WARNING for finding in findings):
        badges.append(("warn", "! see the warnings"))
    marks = "".join(f'<span class="badge {style}">{escape(text)}</span>' for style, text in badges)
    lines = [*finding_lines(findings, Kind.INVALID), *finding_lines(findings, Kind.WARNING)]
    reasons = [f"{_capital(line)}." for line in (*lines, *comparability_lines(points))]
    return f'<p class="badges">{marks}</p>{paragraphs(reasons, "reason")}'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def headline(curve: Curve, points: Sequence[Point]) -> str:
    """Return throughput at each target as a card, with the warnings on what it was read off."""
    unit = throughput_unit(curve.gpus, curve.headline_is)
    cards = []
    for value in curve.values:
        throughput = value.at.throughput
        reached = throughput is not None
        number = rate(throughput) if reached else NOT_REACHED
        interval = bounds(value.interval)
        under = f"95 % interval {interval}" if interval else ""
        cards.append(
            f'<div class="card{"" if reached else " none"}">'
            f'<p class="at">at {speed(value.at.target)} tok/s/user</p>'
            f'<p class="number">{escape(number)}'
            f"{f' <small>{unit}</small>' if reached else ''}</p>"
            f"<p>{escape(under)}</p><p>{escape(target_note(value, unit))}</p>"
            f"{paragraphs([_capital(said) for said in warnings_at(value, points)], 'reason')}</div>"
        )
    return f'<div class="cards">{"".join(cards)}</div>'


# --- tables --------------------------------------------------------------------------------------


def points_section(run: Run) -> str:
    """Return the table of points and its notes."""
    unit = throughput_unit(run.gpus)
    heads = (
        "concurrency", "tok/s/user", *(f"{name} {unit}" for name in throughput_names(run.points)),
        f"uncached {unit}",
        f"output {unit}", "hit / max %", "P90 ITL ms", "P90 TTFT s", "P90 e2e s", "ok", "bad",
        "valid",
    )  # fmt: skip
    rows = [_point_row(point, run.gpus) for point in run.points]
    notes = [_capital(line.strip()) for line in window_lines(run.points)]
    missing = paragraphs([*unmeasured_lines(run), *go_on_lines(run)], "reason")
    return table(heads, rows) + missing + paragraphs([*notes, POINT_DEFINITIONS], "small")


def _point_row(point: Point, gpus: int | None) -> list[str]:
    summary = point.summary
    valid = valid_word(point)
    if summary is None:
        return [point.name, *[ABSENT] * 11, valid]
    headline, beside = (
        None if found is None else found.per(gpus) or found
        for found in (summary.rates.headline, summary.rates.beside)
    )
    itl, ttft, whole = summary.response_itl, summary.ttft, summary.end_to_end
    counts = summary.counts
    return [
        point.name,
        rate(summary.interactivity),
        rate(headline.total_tokens_per_s if headline else None),
        beside_text(point, beside),
        rate(headline.uncached_tokens_per_s if headline else None),
        rate(headline.output_tokens_per_s if headline else None),
        f"{share(summary.cache_hit)} / {share(summary.cache_hit_theoretical)}",
        rate(itl.p90_s * 1e3 if itl else None),
        rate(ttft.p90_s if ttft else None),
        rate(whole.p90_s if whole else None),
        str(counts.measured),
        str(counts.sent - counts.measured),
        valid,
    ]


def servers_section(run: Run) -> str:
    """Return what each of several servers was sent and answered; nothing for a single one."""
    by_level = served_by_level(run)
    if not by_level:
        return ""
    heads = ["server", *(f"{what} at {level}" for level in by_level for what in ("req", "tokens"))]
    rows = [
        [
            url,
            *(
                text
                for served in by_level.values()
                for text in (f"{served[place].requests:,}", rate(served[place].tokens))
            ),
        ]
        for place, url in enumerate(urls_of(run))
    ]
    text = (
        "By concurrency: requests sent to each server in the window, and the input and output "
        "tokens of those that ended well."
    )
    return f"<h3>By server</h3>{table(heads, rows)}{paragraphs([text], 'small')}"


def instrument_section(run: Run) -> str:
    """Return the client's own error, level by level."""
    rows = []
    for point in run.points:
        found = point.instrument
        if found is None:
            continue
        rows.append(
            [
                point.name,
                _ms(found.send_lag_p99_s),
                _ms(found.loop_lag_p99_s),
                found.timestamps,
                _percent(found.itl_shift),
                _percent(found.ttft_shift),
                _percent(found.late_event_share),
                _percent(found.busiest_cpu_share),
                f"NO ({UNTRUSTED})" if point.has("token-itl-untrusted") else "yes",
                "NO" if any(saturation(found)) else "yes",
            ]
        )
    if not rows:
        return paragraphs([_no_samples(run)])
    heads = (
        "concurrency", "send lag P99 ms", "loop lag P99 ms", "timestamps by the",
        "P90 ITL could move by", "P90 TTFT could move by", "timestamps that are upper bounds",
        "busiest worker, of a core", "token ITL trusted", "client sound",
    )  # fmt: skip
    text = (
        "The client is taken as the bottleneck, and a point as not valid, where late timestamps "
        f"could move the P90 ITL or the P90 TTFT by more than {MAX_SHIFT:.1%}, the send lag P99 "
        f"is over {MAX_SEND_LAG_P99_S * 1e3:.0f} ms, a worker used over {MAX_CPU_SHARE:.0%} of a "
        f"core in any {CPU_SPAN_S} s, or, where the kernel did not take "
        f"the timestamps, a worker stood still during over {MAX_SHARE:.0%} of the responses."
    )
    return table(heads, rows) + paragraphs([text], "small")


def _no_samples(run: Run) -> str:
    if all(point.facts.window is None for point in run.points):
        return "Nothing to say of the client: no window opened."
    if _part(run.sweep, "target").get("kind") == "simulator in virtual time":
        return "No samples of the client: the run was in virtual time."
    return "No samples of the client were written in any window, so its error is not known."


def _ms(value_s: float | None) -> str:
    return ABSENT if value_s is None else rate(value_s * 1e3)


def _percent(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1%}"


def sensitivity_section(run: Run, targets: Sequence[float]) -> str:
    """Return throughput at the targets under every definition."""
    variants = run.variants
    untrusted = any(point.has("token-itl-untrusted") for point in run.points)
    rows, lacking = [], []
    for definition in DEFINITIONS:
        found = [reading_at(variants, definition, target, run.gpus or 1) for target in targets]
        mark = UNTRUSTED if definition.speed == "token" and untrusted else ""
        rows.append([definition.name, *(_reading(each, mark) for each in found)])
        why = next((each.why for each in found if each.at is None), None)
        if why is not None:
            lacking.append(f"{definition.name}: {why}.")
    heads = ["definition", *(f"at {speed(target)} tok/s/user" for target in targets)]
    text = (
        f"The same records, {throughput_unit(run.gpus, run.headline_is)}, with one definition "
        "changed in each row. "
        "Comparing two systems, look whether the order holds in every row (agentx-replay compare)."
    )
    slow = [each for each in point_findings(run.points) if each.code == "token-itl-untrusted"]
    lacking += [f"{UNTRUSTED}: {line}." for line in finding_lines(slow, Kind.WARNING)]
    return paragraphs([text]) + table(heads, rows) + paragraphs(lacking, "small")


def _reading(found: Reading, mark: str) -> str:
    if found.throughput is not None:
        return mark + rate(found.throughput)
    side = found.at.every_level_is if found.at is not None else None
    return ABSENT if side is None else f"{NOT_REACHED}: all {side}"


def fidelity_section(run: Run) -> str:
    """Return how far the replay kept to its recording; from the records where no report is."""
    reports = [(p.name, p.fidelity) for p in run.points if p.fidelity is not None]
    if not reports:
        return paragraphs(
            ["No level has a fidelity report here; what agentx-replay report prints says why."]
        )
    heads = ["what", *(f"concurrency {concurrency}" for concurrency, _ in reports)]
    rows = [list(row) for row in zip(*(_fidelity_column(f) for _, f in reports), strict=True)]
    named = [[name, *row] for name, row in zip(_FIDELITY_ROWS, rows, strict=True)]
    broken = [f"{_capital(line)}." for line in finding_lines(run_findings(run.points), Kind.BROKEN)]
    compared = all(report.conformity.prefixes is not None for _, report in reports)
    kept = (
        "the waits of its recording, and kept what it shares there with prompts its play had sent"
        if compared
        else "the waits of its recording; prefixes are not compared where live output was fed back"
    )
    said = broken or [f"Every request was sent in the order, with {kept}."]
    answers = [
        f"Concurrency {concurrency}: {answers_line(report)}."
        for concurrency, report in reports
        if report.conformity.prefixes is None
    ]
    shown = paragraphs(said, "reason" if broken else "") + paragraphs(answers) + table(heads, named)
    return shown + paragraphs([_WORDS], "small")


_WORDS = (
    "A lane is one of the places at which a session is alive at all times; a play is one replay of "
    "a session on a lane, its subagents included. A reset is a prompt that keeps less than half of "
    "the one before it. Reuse as recorded also counts prompts that a play did not send or not yet, "
    "such as those before its start. All words are in docs/glossary.md."
)
_FIDELITY_ROWS = (
    "requests checked against the recording",
    "prompt length exact, % of responses",
    "prompt length error, in aggregate %",
    "output length exact, % of responses",
    "input reused within a play, sent / recorded %",
    "later than recorded gap, P50 / P99 ms",
    "plays alive, least–most of wanted",
    "prefix resets, sent / recorded",
)


def _fidelity_column(of: Fidelity) -> list[str]:
    gaps, resets = of.conformity.gaps, of.conformity.resets_sent
    return [
        f"{of.conformity.requests:,}",
        _exact(of.prompt_lengths),
        ABSENT if of.prompt_lengths is None else f"{of.prompt_lengths.aggregate * 100:+.3f}",
        _exact(of.output_lengths),
        f"{share(of.reuse_sent)} / {share(of.reuse_recorded)}",
        ABSENT if gaps is None else f"{rate(gaps.p50_ms)} / {rate(gaps.p99_ms)}",
        f"{of.trees_least}–{of.trees_most} of {of.trees_wanted}",
        f"{ABSENT if resets is None else resets} / {of.conformity.resets_recorded}",
    ]


def _exact(lengths: LengthErrors | None) -> str:
    return ABSENT if lengths is None else f"{lengths.share_exact * 100:.1f}"


# --- the server's own metrics --------------------------------------------------------------------


def agreement_section(points: Sequence[Point]) -> str:
    """Return how the server's cache counters and the client's count agree; nothing untold."""
    rows = [
        [
            point.name,
            f"{each.server_hit:.1%}",
            f"{each.client_hit:.1%}",
            f"{each.least_hit:.1%} – {each.most_hit:.1%}",
            f"{each.foreign_share:+,.1%}",
            "DISAGREE" if any(cache_agreement(each)) else "agree",
        ]
        for point in points
        if (each := point.agreement) is not None
    ]
    if not rows:
        return ""
    heads = ("concurrency", "server's counters", "usage of responses", "which may be",
             "prompts beyond this run", "verdict")  # fmt: skip
    text = (
        "Share of prompt tokens found in the prefix cache, from the last scrape before the window "
        "to the last in it. A prompt under way at one of these, or in the 2 s before it, may have "
        "been counted on either side of it: the responses' share lies in that range. Prompts "
        "beyond this run: tokens the server looked up that this run cannot have sent."
    )
    shown = table(heads, rows) + paragraphs([text], "small")
    return f"<h3>The cache, counted twice</h3>{shown}"


def speculation_section(levels: Sequence[tuple[MeasuredLevel, Speculation | None]]) -> str:
    """Return what speculative decoding brought; nothing where no level shows any."""
    rows = []
    for level, told in levels:
        per_event = level.profile.tokens_per_event if level.profile else None
        if told is None and (per_event is None or per_event < SPECULATION_FROM):
            continue
        rows.append([level.point.name, *_speculation_cells(per_event, told)])
    if not rows:
        return ""
    heads = (
        "concurrency", "tokens per event", "drafted per cycle", "tokens per cycle",
        "accepted by position %", "last draft pays below", "one more pays below, at most",
    )  # fmt: skip
    text = (
        "A cycle drafts some tokens and commits those accepted and one more. A draft token pays "
        "only while it lengthens the cycle by less than it lengthens what is committed."
    )
    return f"<h2>Speculative decoding</h2>{paragraphs([text])}{table(heads, rows)}"


def _speculation_cells(per_event: float | None, told: Speculation | None) -> list[str]:
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


# --- disclosure ----------------------------------------------------------------------------------


def disclosure(run: Run, curve: Curve) -> str:
    """Return the five questions that every result must answer, and the answers."""
    questions = (
        ("What is latency here?", _latency_answer(curve)),
        ("What is a token here?", _token_answer(run)),
        ("Per what?", _unit_answer(run)),
        ("Under which load?", _load_answer(run)),
        ("Who measured, when, on what?", _origin_answer(run)),
    )
    return "".join(
        f"<h3>{escape(question)}</h3>{paragraphs(answer)}" for question, answer in questions
    )


def _latency_answer(curve: Curve) -> list[str]:
    return [
        "P90 over responses of the mean gap between a response's tokens, first token excluded, "
        "linear interpolation between ranks. Interactivity is its inverse. Token ITL, over all "
        "tokens, is shown beside it and never mixed with it.",
        _capital(uncertainty([curve])),
    ]


def _token_answer(run: Run) -> list[str]:
    hits = [
        f"{point.name}: {share(point.summary.cache_hit)} / "
        f"{share(point.summary.cache_hit_theoretical)}"
        for point in run.points
        if point.summary is not None
    ]
    said = (
        f"Cache hit by concurrency, measured / with an unlimited cache, %: {'; '.join(hits)}."
        if hits
        else "No cache hit: no level was measured."
    )
    return [
        "Input and output tokens of responses that ended well, as the server counts them, reused "
        "input included. The tables give the same without reused input, and output alone.",
        said,
    ]


def _unit_answer(run: Run) -> list[str]:
    if run.gpus is None:
        return ["Per system: no GPU count was given (--gpus). No price, no power was given."]
    return [f"Per GPU, of {run.gpus}. No price and no power enter this page."]


def _load_answer(run: Run) -> list[str]:
    corpus, scenario = _part(run.sweep, "corpus"), _part(run.sweep, "scenario")
    lengths = {point.facts.rules.window_s for point in run.points}
    prompts = _part(run.sweep, "calibration")
    return [
        f"Corpus {corpus.get('name', 'unknown')} (fingerprint {corpus.get('fingerprint', '?')}), "
        f"of {corpus.get('sessions', '?')} sessions {_length(corpus.get('played'))} were to be "
        f"played; concurrency {', '.join(point.name for point in run.points)}.",
        _played(run),
        f"Scenario {scenario.get('name', 'unknown')} (fingerprint "
        f"{scenario.get('fingerprint', '?')}): window "
        f"{', '.join(f'{length:g}' for length in sorted(lengths))} s.",
        f"Rules: {rules_words(scenario)}.",
        f"Prompts, as calibrated: {prompts_words(prompts) if prompts else 'not recorded'}.",
        *([_LIVE_HISTORY] if run.sweep.get("live_history") else []),
        f"Server, as it told: {server_words(_part(run.sweep, 'target'))}.",
    ]


_LIVE_HISTORY = (
    "Live output was to be fed back: later prompts of a session said what the server had answered, "
    "where it had (--live-history)."
)


def _played(run: Run) -> str:
    """Return of how many sessions each level sent a request in its window."""
    counts = [f"{each.point.name}: {each.sessions_played}" for each in run.levels]
    return f"Sessions played in the window, at least in part, by concurrency: {'; '.join(counts)}."


def _origin_answer(run: Run) -> list[str]:
    when = _started(run, "%Y-%m-%d %H:%M:%S UTC") or "unknown"
    return [
        f"Begun {when}. "
        f"Client: {client_words(_part(run.sweep, 'host'), _part(run.sweep, 'versions'))}.",
        f"Command: agentx-replay {_command(run)}",
        "Who ran it is for whoever shows this page to say.",
    ]


def _length(value: Any) -> str:
    """Return how many a list of ``sweep.json`` holds; a question mark where it is none."""
    return str(len(value)) if isinstance(value, list) else "?"


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, Mapping) else {}
