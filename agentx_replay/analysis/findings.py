"""Every judgement on a point or a curve: its code, its sentence and its threshold, in one place.

A rule is a pure function of figures that yields findings. ``Point.findings`` calls the rules of a
point, ``run_findings`` those of a curve; terminal, page and JSON show what these return and word
nothing again. To add a finding: write its rule here, beside its threshold, with a code that no
other has, call the rule in ``Point.findings``, and add the code to the table in docs/metrics.md.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, Literal

from agentx_replay.analysis.client_lag import CPU_SPAN_S, STALL_NS, InstrumentReport
from agentx_replay.analysis.facts import Conduct, Rules, too_long
from agentx_replay.analysis.fidelity import Fidelity
from agentx_replay.analysis.itl_error import BURST_SHARE, ItlError
from agentx_replay.analysis.machines import MAX_DRIFT_NS, MachineFacts, MachineLatency, apart
from agentx_replay.analysis.metrics import Counts, PointSummary, PromptLengths
from agentx_replay.analysis.server import CacheAgreement
from agentx_replay.analysis.throughput import SHORT_WINDOW_S
from agentx_replay.reason import Reason
from agentx_replay.results.layout import Measurement
from agentx_replay.results.run_directory import PointStatus
from agentx_replay.text_format import beyond, counted


class Kind(StrEnum):
    """What a finding does: ``invalid`` refuses the number and sets the exit code, ``incomparable``
    keeps it from standing beside others, ``broken`` is a rule of the replay that was not kept,
    ``warning`` changes nothing.
    """

    INVALID = "invalid"
    INCOMPARABLE = "incomparable"
    WARNING = "warning"
    BROKEN = "broken"


Blame = Literal["client", "server", "run"]


@dataclass(frozen=True, slots=True)
class Finding(Reason):
    """One judgement on what was measured: a reason, whose ``text`` names the figures.

    ``remedy`` is a second clause, which several findings may have in common. ``levels`` are those
    that it is of; a point's own findings name none. ``blame`` says what has to change before the
    level is measured again: this client, the server or what is between, or the run's settings.
    """

    kind: Kind
    levels: tuple[Measurement, ...] = ()
    remedy: str = ""
    blame: Blame = "run"

    def document(self) -> dict[str, Any]:
        levels = {"levels": [level._asdict() for level in self.levels]} if self.levels else {}
        remedy = {"remedy": self.remedy} if self.remedy else {}
        blame = {"blame": self.blame} if self.kind is Kind.INVALID else {}
        said = {"code": self.code, "kind": self.kind.value, "text": self.text}
        return said | blame | levels | remedy


def _invalid(code: str, text: str, blame: Blame = "server") -> Finding:
    return Finding(code, text, Kind.INVALID, blame=blame)


def _late(code: str, text: str) -> Finding:
    """Return that this client was too slow; what helps is the same for every reason."""
    return Finding(code, f"client: {text}", Kind.INVALID, remedy=_TO_DO, blame="client")


def _warning(code: str, text: str, remedy: str = "") -> Finding:
    return Finding(code, text, Kind.WARNING, remedy=remedy)


# --- is the measurement sound --------------------------------------------------------------------

FIELD_REFUSED = "field-refused"
"""Code of a warning before a run, which its levels repeat."""

MAX_SHARE = 0.01
MAX_PROMPT_LENGTH_ERROR = 0.005
MIN_OBSERVED_SHARE_OF_WINDOW = 0.95
MIN_COMPARABLE_WINDOW_S = SHORT_WINDOW_S
MAX_SHIFT = 0.025
MAX_LATE_EVENTS = 0.01
MAX_SEND_LAG_P99_S = 0.050
_SEND_LAG_MS = MAX_SEND_LAG_P99_S * 1e3
MAX_CPU_SHARE = 0.85
MAX_LAG_SHARE_OF_ITL = 0.10
_TO_DO = "stop what else runs on this machine"
_LONGER_GRACE = "to let them end: --override grace_s=SECONDS"
_ONE_WORKER_DRIVES = 64
"""Sessions beyond which more workers help a client that is too slow."""


def at_level(of: Finding, concurrency: int) -> Finding:
    """Return a finding with what helps at a level."""
    more = of.remedy == _TO_DO and concurrency > _ONE_WORKER_DRIVES
    return replace(of, remedy=f"{_TO_DO}, or use more --workers") if more else of


def course(status: PointStatus, conduct: Conduct, *, opened: bool) -> Iterator[Finding]:
    """Judge whether the run came to its end; ``opened`` says whether its window did."""
    if conduct.interrupted:
        yield _invalid("run-interrupted", "interrupted", "run")
    if status is PointStatus.RUNNING:
        yield _invalid("not-finished", "not finished: still running, or killed", "run")
    elif conduct.failure_code == "worker-hung":
        yield _late(conduct.failure_code, str(conduct.failure))
    elif conduct.failure is not None:
        own = (None, "worker-died", "machine-lost")
        blame: Blame = "run" if conduct.failure_code in own else "server"
        yield _invalid(conduct.failure_code or "run-failed", conduct.failure, blame)
    elif not opened and not conduct.interrupted:
        yield _invalid("window-never-opened", "the window never opened", "run")


def outcomes(counts: Counts) -> Iterator[Finding]:
    if not counts.sent:
        yield _invalid("nothing-sent", "no request was sent in the window", "run")
        return
    for code, number, what, remedy in (
        ("requests-failed", counts.failed, f"failed{counts.quoted('failed')}", ""),
        (
            "requests-overflowed",
            counts.overflow,
            f"overflowed the context{counts.quoted('overflow')}",
            "",
        ),
        ("requests-cut", counts.cut, "were cut at the end of the grace", _LONGER_GRACE),
        ("lengths-not-as-asked", counts.length_mismatch, "had another length than asked", ""),
    ):
        if number > MAX_SHARE * counts.sent:
            text = (
                f"{number} of {counted(counts.sent, 'request')} "
                f"({beyond(number / counts.sent, MAX_SHARE, 1)}) "
                f"{what}, over {MAX_SHARE:.0%}"
            )
            yield replace(_invalid(code, text), remedy=remedy)
    if not counts.measured:
        yield _invalid("nothing-succeeded", "no request succeeded")
    if counts.without_usage:
        yield _invalid(
            "no-usage",
            f"the server reported no usage for {counts.without_usage} of "
            f"{counted(counts.measured, 'response')}",
        )


def observation(summary: PointSummary, nominal_window_s: float) -> Iterator[Finding]:
    """Judge whether prompts had their lengths, and latencies were seen to the window's end.

    TTFT and ITL must both have been seen, as agentx-harness 1.0.12 asks of windows of 900 s and
    more; in a shorter one, where a single response may span the rest, either.
    """
    lengths = summary.prompt_lengths
    if lengths is not None and abs(lengths.aggregate_error) > MAX_PROMPT_LENGTH_ERROR:
        yield _invalid(
            "prompt-lengths-off",
            f"prompts were {lengths.aggregate_error:+.2%} off the recorded length in aggregate, "
            f"over {MAX_PROMPT_LENGTH_ERROR:.1%}",
            "run",
        )
    if not summary.counts.measured:
        return
    ttft_s, itl_s = summary.last_ttft_s, summary.last_itl_s
    if ttft_s is None or itl_s is None:
        yield _invalid("no-itl", "no ITL was observed")
        return
    both = nominal_window_s >= MIN_COMPARABLE_WINDOW_S
    seen_s = min(ttft_s, itl_s) if both else max(ttft_s, itl_s)
    needed_s = MIN_OBSERVED_SHARE_OF_WINDOW * nominal_window_s
    if seen_s < needed_s:
        yield _invalid(
            "observed-too-short",
            f"the last TTFT or ITL was observed {beyond(seen_s, needed_s, 1, ' s')} into the "
            f"window, before {beyond(needed_s, seen_s, 1, ' s')} "
            f"({MIN_OBSERVED_SHARE_OF_WINDOW:.0%} of it)",
            "run",
        )


MAX_ITL_ERROR = 0.025
SLIGHT_ITL_ERROR = 0.005
_LESS_GATHERING = (
    "let proxies pass events on at once: haproxy `option http-no-delay`, nginx `proxy_buffering "
    "off`, lighttpd `server.stream-response-body = 2`, and no compression of event streams"
)
_TELL_TOKENS = "have the server tell usage in every event (vLLM: `continuous_usage_stats`)"


def arrivals(of: ItlError, counts: Counts) -> Iterator[Finding]:
    """Judge whether what happened between server and client leaves ITL and TTFT to be measured; a
    small effect is a warning.
    """
    if of.in_one_arrival > MAX_SHARE * counts.measured:
        yield from _in_one_arrival(of, counts)
    for code, slight_code, error, text in (
        ("arrivals-gathered", "some-arrivals-gathered", of.gathered_error, _gathered(of)),
        ("first-tokens-gathered", "some-first-tokens-gathered", of.ttft_error, _late_first(of)),
    ):
        if error is not None and error > MAX_ITL_ERROR:
            yield _invalid(code, text)
        elif error is not None and error > SLIGHT_ITL_ERROR:
            yield _warning(slight_code, text)
    if of.unshown_range is not None and of.unshown_range > MAX_ITL_ERROR:
        yield _invalid("tokens-unshown", _unshown(of))
    elif of.unshown_range is not None and of.unshown:
        yield _warning("some-tokens-unshown", _unshown(of))
    if of.by_text and of.p90_s and of.by_text_most_s and of.by_text_most_s > of.p90_s:
        yield _warning(
            "tokens-told-by-text",
            f"{counted(of.by_text, 'response')} had several tokens an event, counted by the length "
            "of their texts alone; were some of them never shown, the P90 ITL would be up to "
            f"{of.by_text_most_s * 1e3:.2f} ms, not {of.p90_s * 1e3:.2f}; {_TELL_TOKENS}",
        )
    if of.bursts > MAX_SHARE * counts.measured:
        yield _warning(
            "tokens-in-bursts",
            f"{counted(of.bursts, 'response')} had over {BURST_SHARE:.0%} of their tokens in one "
            "read; their ITL is a mean, and does not show the wait for it",
        )
    if of.hidden_reasoning:
        yield _warning(
            "reasoning-hidden",
            f"{counted(of.hidden_reasoning, 'response')} had reasoning tokens that no event "
            "brought; the ITL leaves them out, throughput counts them",
        )


def _in_one_arrival(of: ItlError, counts: Counts) -> Iterator[Finding]:
    """Name who is the cause; where both are, both together are over the limit."""
    several = f"of {counted(counts.measured, 'response')} of several tokens"
    limit = f"(limit {MAX_SHARE:.0%}, whoever the cause)"
    if elsewhere := of.in_one_arrival - of.read_late:
        text = f"{elsewhere} {several} arrived in one read {limit}; {_LESS_GATHERING}"
        yield _invalid("responses-in-one-arrival", text)
    if of.read_late:
        yield _late(
            "responses-read-late", f"{of.read_late} {several} were read at once, late {limit}"
        )


def _gathered(of: ItlError) -> str:
    error = of.gathered_error or 0.0
    return (
        f"somebody gathered the token events of {counted(of.gathered, 'response')}, up to "
        f"{of.most_events} in one read, which could move the P90 ITL by "
        f"{beyond(error, MAX_ITL_ERROR, 1)} (limit {MAX_ITL_ERROR:.1%}); {_LESS_GATHERING}"
    )


def _late_first(of: ItlError) -> str:
    error = of.ttft_error or 0.0
    return (
        f"somebody gathered the first token events of {counted(of.late_first, 'response')}: the "
        f"P90 TTFT could be {beyond(error, MAX_ITL_ERROR, 1)} shorter "
        f"(limit {MAX_ITL_ERROR:.1%}); {_LESS_GATHERING}"
    )


def _unshown(of: ItlError) -> str:
    least_ms, most_ms = (of.least_s or 0.0) * 1e3, (of.most_s or 0.0) * 1e3
    return (
        f"{counted(of.unshown, 'response')} had completion tokens that no event accounts for: the "
        f"P90 ITL is between {least_ms:.2f} and {most_ms:.2f} ms (limit {MAX_ITL_ERROR:.1%}), "
        f"throughput counts all tokens; {_TELL_TOKENS}"
    )


def saturation(
    of: InstrumentReport, machines: Sequence[tuple[str, InstrumentReport | None]] = ()
) -> Iterator[Finding]:
    """Judge whether the client was too slow; of several ``machines``, by host, name which were."""
    for finding in _too_slow(of):
        hosts = [
            host
            for host, own in machines
            if own and any(each.code == finding.code for each in _too_slow(own))
        ]
        where = f", on machine {' and '.join(hosts)}" if hosts else ""
        yield replace(finding, text=f"{finding.text}{where}")


def _too_slow(of: InstrumentReport) -> Iterator[Finding]:
    for code, what, shift in (
        ("client-stamps-late", "ITL", of.itl_shift),
        ("client-ttft-late", "TTFT", of.ttft_shift),
    ):
        if shift is not None and shift > MAX_SHIFT:
            yield _late(
                code,
                f"late timestamps could move the P90 {what} by "
                f"{beyond(shift, MAX_SHIFT, 1)} (limit {MAX_SHIFT:.1%})",
            )
    if of.stalled_share is not None and of.stalled_share > MAX_SHARE:
        yield _late(
            "client-stalled",
            f"during {beyond(of.stalled_share, MAX_SHARE, 1)} of the responses their worker stood "
            f"still for over {STALL_NS / 1e6:.0f} ms (limit {MAX_SHARE:.0%})",
        )
    if of.send_lag_p99_s is not None and of.send_lag_p99_s > MAX_SEND_LAG_P99_S:
        yield _late(
            "client-sends-late",
            f"send lag P99 is {beyond(of.send_lag_p99_s * 1e3, _SEND_LAG_MS, 0, ' ms')} "
            f"(limit {_SEND_LAG_MS:.0f} ms)",
        )
    if of.busiest_cpu_share is not None and of.busiest_cpu_share > MAX_CPU_SHARE:
        yield _late(
            "client-cpu",
            f"a worker used {beyond(of.busiest_cpu_share, MAX_CPU_SHARE, 0)} of a core over "
            f"{CPU_SPAN_S} s (limit {MAX_CPU_SHARE:.0%})",
        )


# --- may it stand beside other results of its scenario --------------------------------------------


def comparability(rules: Rules, counts: Counts | None) -> Iterator[Finding]:
    """Judge which rules were not kept; ``counts`` is None where the window never opened."""
    sessions, requests = rules.sessions_left_out, rules.requests_left_out
    taken, wanted = rules.sessions or 0, rules.max_sessions
    lacking = f"{counted(taken, 'session')}, the scenario takes the first {wanted}: another corpus"
    short = f"the window is {rules.window_s:g} s, under {MIN_COMPARABLE_WINDOW_S:g} s"
    quick = f"scenario {rules.scenario} is for a quick look"
    measured = counts is not None and counts.measured
    texts = {
        "nothing-measured": not measured and "nothing was measured",
        "no-server": rules.no_server,
        "scenario-not-comparable": not rules.comparable and quick,
        "rules-overridden": rules.overridden and f"rules overridden: {', '.join(rules.overridden)}",
        "window-short": rules.window_s < MIN_COMPARABLE_WINDOW_S and short,
        "sessions-left-out": sessions and f"{counted(sessions, 'session')} left out",
        "requests-left-out": requests and f"{counted(requests, 'request')} left out",
        "other-corpus": rules.other_corpus and f"another corpus: {rules.other_corpus}",
        "sessions-lacking": rules.sessions is not None and wanted and taken < wanted and lacking,
        "live-history": rules.live_history and "live output as history (--live-history)",
        "tool-messages": rules.tool_messages and "answers as tool calls (--tool-messages)",
        "speculative-decoding": (
            rules.speculative_decoding and f"speculative: {rules.speculative_decoding}"
        ),
    }
    return (Finding(code, str(text), Kind.INCOMPARABLE) for code, text in texts.items() if text)


# --- what to mind of a number that is valid -------------------------------------------------------

FEW_RESPONSES = 30
FAR_APART = 0.20
FAR_APART_IN_SHORT_WINDOW = 0.50
"""Relative difference of windowed and overall throughput above which neither stands alone. Overall
throughput counts the drain, which is 9 to 40 % of its time in a window under ``SHORT_WINDOW_S``.
"""
FEW_ANSWERS = 0.5
"""Share of the answers to be fed back below which a run is more of words than of live history."""
MAX_HIT_DIFFERENCE = 0.01
MAX_FOREIGN_SHARE = 0.05
_LENGTHS_OFF = 0.01
"""What prompt lengths that are off move a hit rate by at most: a valid point's are by 0.5 %."""
_ALIKE_TOKENS = 64
"""Tokens a prompt that are alike beyond the blocks shared as recorded: what a template opens every
conversation and a message with."""


def weakness(summary: PointSummary) -> Iterator[Finding]:
    itl = summary.response_itl
    difference, short = summary.rates.difference, summary.rates.headline_is == "windowed"
    limit = FAR_APART_IN_SHORT_WINDOW if short else FAR_APART
    if itl is not None and itl.count < FEW_RESPONSES:
        yield _warning(
            "few-responses",
            f"P90 of {counted(itl.count, 'response')}, fewer than {FEW_RESPONSES}: one or two of "
            "them decide it",
        )
    if difference is not None and abs(difference.relative) > limit:
        relative = difference.relative
        far = f"{relative:+.1%} from" if relative <= 1.0 else f"{1.0 + relative:.1f}x"
        yield _warning(
            "throughputs-far-apart",
            f"windowed throughput is {far} the overall, over {limit:.0%} "
            f"(ramp {difference.ramp_s:.1f} s, drain {difference.drain_s:.1f} s)",
        )


def context(rules: Rules) -> Iterator[Finding]:
    """Warn of a context limit that leaves out so much that what is left is another corpus."""
    if said := too_long(rules.requests_too_long, rules.requests_recorded):
        yield _warning("context-leaves-out", said)


LARGE_PLAY = 0.20
"""Share of the tokens above which one play carries a level, where lanes are more than a few."""


def fields_refused(refusals: Sequence[str]) -> Iterator[Finding]:
    for said in refusals:
        yield _warning(FIELD_REFUSED, said)


def facts_contradicted(of: Sequence[tuple[str, Any, Any]]) -> Iterator[Finding]:
    """Warn of facts of the system that its server tells otherwise: (key, said, told)."""
    if of:
        said = "; ".join(f"{key} = {one}, the server {other}" for key, one, other in of)
        yield _warning("facts-contradicted", f"the facts of the system say {said}")


def window_length(summary: PointSummary, lanes: int, window_s: float) -> Iterator[Finding]:
    """Warn of a window in which the level had not settled, and of one play that carries it; a
    window that is too short to be compared is so of few sessions, and says it by itself.
    """
    if window_s < MIN_COMPARABLE_WINDOW_S:
        return
    found = summary.halves
    if found is not None and found.settled_s is None:
        (itl, later_itl), (rate, later_rate) = found.p90_itl_s, found.tokens_per_s
        yield _warning(
            "not-settled",
            "not settled: from the first half of the window to the second the P90 ITL changed by "
            f"{later_itl / itl - 1:+.0%}, throughput by {later_rate / rate - 1:+.0%}",
        )
    weights = summary.play_weights
    if weights is not None and weights.largest_share > max(LARGE_PLAY, 2 / lanes):
        yield _warning(
            "one-play-carries",
            f"one play has {weights.largest_share:.0%} of the tokens "
            f"({weights.effective:.1f} effective of {counted(weights.plays, 'play')})",
        )


def answers_fed_back(of: Fidelity) -> Iterator[Finding]:
    if not of.answers_due:
        yield _warning(
            "no-answer-due",
            "no answer was fed back: no prompt in the window continues an answered one",
        )
    elif of.answers_fed_back < FEW_ANSWERS * of.answers_due:
        yield _warning(
            "few-answers-fed-back",
            f"answers fed back: {of.answers_fed_back} of {of.answers_due}; words replaced the "
            "others, whose responses failed or had no content (reasoning and tool calls do not "
            "count) or no usage",
        )


def cache_counts(counts: Counts) -> Iterator[Finding]:
    if counts.cached_above_prompt:
        report = counted(counts.cached_above_prompt, "response reports", "responses report")
        yield _warning(
            "cache-counts-impossible",
            f"{report} more cached than prompt tokens; their cache counts are not used",
        )


def cache_agreement(of: CacheAgreement) -> Iterator[Finding]:
    low, high = of.least_hit - MAX_HIT_DIFFERENCE, of.most_hit + MAX_HIT_DIFFERENCE
    if of.foreign_share > MAX_FOREIGN_SHARE:
        yield _warning(
            "server-shared",
            f"the server looked up {of.foreign_share:.0%} more prompt tokens than this run "
            "sent: another client used it, or it recomputed prompts",
        )
    elif of.foreign_share < -MAX_FOREIGN_SHARE:
        yield _warning(
            "engines-not-scraped",
            f"the server looked up {-of.foreign_share:.0%} fewer prompt tokens than this run "
            "sent: engines behind it are not scraped (--metrics-url), or do not count",
        )
    elif not low <= of.server_hit <= high:
        yield _warning(
            "cache-hits-disagree",
            f"the server's counters say {of.server_hit:.1%} of prompt tokens were cached, "
            f"its responses say {of.client_hit:.1%}",
        )


def known_before(summary: PointSummary) -> Iterator[Finding]:
    """Judge whether the server cached more than it was sent in the level: then it computed less
    than the level asked for, and both its throughput and its TTFT are of less work.
    """
    hit, possible = summary.cache_hit, summary.cache_hit_theoretical
    lengths = summary.prompt_lengths
    if hit is None or possible is None or lengths is None:
        return
    if hit > possible + _LENGTHS_OFF + _ALIKE_TOKENS / lengths.mean_tokens:
        yield _invalid(
            "prompts-cached-before",
            f"cache hit rate {hit:.1%} exceeds the {possible:.1%} possible from an empty cache; "
            "prompts were cached before this level (leave --salt out, or restart the server)",
            "run",
        )


def failures(counts: Counts) -> Iterator[Finding]:
    bad = [
        f"{number} {what}"
        for number, what in (
            (counts.failed, f"failed{counts.quoted('failed')}"),
            (counts.overflow, f"overflowed the context{counts.quoted('overflow')}"),
            (counts.cut, "cut"),
            (counts.length_mismatch, "of another length than asked"),
            (counts.retries, "sent again on a new connection"),
        )
        if number
    ]
    if bad:
        kinds = ", ".join(f"{name} {number}" for name, number in counts.categories)
        errors = f" (errors: {kinds})" if kinds else ""
        said = f"of {counted(counts.sent, 'request')} {', '.join(bad)}{errors}"
        yield _warning("requests-not-ok", said)


def token_itl(of: InstrumentReport, summary: PointSummary) -> Iterator[Finding]:
    """Warn if the client was too slow for token ITL and event gaps to be believed: of its own
    timestamps by its loop lag, of the kernel's by how many are exact.
    """
    itl, late = summary.response_itl, of.late_event_share or 0.0
    if of.timestamps == "kernel":
        why = late > MAX_LATE_EVENTS and (
            f"this client read {late:.2%} of the token events so late that their arrival times "
            f"are not known (limit {MAX_LATE_EVENTS:.0%})"
        )
    else:
        lag_s = of.loop_lag_p99_s or 0.0
        why = (
            itl is not None
            and lag_s > MAX_LAG_SHARE_OF_ITL * itl.p90_s
            and f"loop lag P99 is over {MAX_LAG_SHARE_OF_ITL:.0%} of the P90 ITL"
        )
    if why:
        yield _warning("token-itl-untrusted", f"{why}; do not trust its token ITL", _TO_DO)


LEVELS_UNLIKE, CURVE_TURNS_BACK = "levels-unlike", "curve-turns-back"
OF_THE_CURVE = (LEVELS_UNLIKE, CURVE_TURNS_BACK)
"""Codes of findings on the curve through all levels: they name concurrencies, not starts."""
FAR_LONGER = 1.5
"""Ratio of two neighbouring levels' mean prompts above which they did not do the same work."""


def like_work(lengths: Mapping[int, Sequence[PromptLengths]]) -> Iterator[Finding]:
    """Warn of a curve whose neighbouring levels had prompts of unlike length, by the lengths of
    each concurrency's valid points. Lane k plays the k-th session, so few lanes see other sessions
    than many.
    """
    means = {level: _mean_prompt(lengths[level]) for level in sorted(lengths)}
    apart = {
        level
        for pair in pairwise(means)
        if max(means[at] for at in pair) > FAR_LONGER * min(means[at] for at in pair)
        for level in pair
    }
    if apart:
        at = [f"{means[level]:,.0f} tokens at {level}" for level in sorted(apart)]
        text = f"adjacent levels replayed different sessions (mean prompt {', '.join(at)})"
        yield _of_levels(LEVELS_UNLIKE, text, apart)


TURNS_BACK = 0.05
"""How much faster a level may be than one of fewer agents: starts lie that far apart."""


def turns_back(speeds: Mapping[int, float]) -> Iterator[Finding]:
    """Warn of a curve on which more agents are faster than fewer, by the speed of each concurrency
    in tokens/s/user: it passes speeds more than once, at different throughputs.
    """
    turns: set[int] = set()
    for level in sorted(speeds):
        slowest = min((each for each in speeds if each <= level), key=lambda each: speeds[each])
        if speeds[level] > (1.0 + TURNS_BACK) * speeds[slowest]:
            turns |= {slowest, level}
    if turns:
        at = [f"{speeds[level]:.1f} tok/s/user at {level}" for level in sorted(turns)]
        yield _of_levels(
            CURVE_TURNS_BACK,
            f"the curve turns back: more agents were faster ({', '.join(at)}), so a speed in "
            "between has more than one throughput; the levels may have done unlike work",
            turns,
        )


def _of_levels(code: str, text: str, levels: Collection[int]) -> Finding:
    return Finding(code, text, Kind.WARNING, tuple(map(Measurement, sorted(levels))))


def _mean_prompt(starts: Sequence[PromptLengths]) -> float:
    return sum(of.count * of.mean_tokens for of in starts) / sum(of.count for of in starts)


# --- did the replay keep its own rules ------------------------------------------------------------


def fidelity(report: Fidelity) -> Iterator[Finding]:
    of, shared = report.conformity, report.shared_between_plays
    alive = report.trees_least == report.trees_most == report.trees_wanted
    early = of.gaps.early if of.gaps else 0
    for code, number, what in (
        ("order-broken", of.order, "sent before a request they follow had ended"),
        ("joins-broken", of.joins, "sent before a subagent they wait for was over"),
        ("spawns-broken", of.spawns, "sent before the request that spawns them"),
        ("gaps-broken", early, "sent earlier than the recorded gap"),
        ("prefixes-broken", of.prefixes, "with another prefix than recorded"),
        ("declared-prefixes-broken", of.overdeclared, "with more shared prefix than recorded"),
        ("isolation-broken", shared, "shared by several plays (blocks)"),
        ("live-trees-broken", int(not alive), "time or more another number of live sessions"),
    ):
        if number:
            yield Finding(code, f"{number} {what}", Kind.BROKEN)


# --- several client machines ---------------------------------------------------------------------


def machines_alike(
    machines: Sequence[MachineFacts], latencies: Sequence[MachineLatency]
) -> Iterator[Finding]:
    for machine in machines:
        drift_ns = abs(machine.clock_drift_ns or 0)
        if drift_ns > MAX_DRIFT_NS:
            yield _warning(
                "machine-clock-drifted",
                f"the clock of machine {machine.host} moved by {drift_ns / 1e6:.1f} ms in the "
                f"level, over {MAX_DRIFT_NS / 1e6:g} ms",
            )
    for name, seen in (
        ("ITL", [each.response_itl for each in latencies]),
        ("TTFT", [each.ttft for each in latencies]),
    ):
        for index, own, other in apart(seen):
            yield _warning(
                "machine-apart",
                f"machine {machines[index].host} saw a P90 {name} of {own.p90_s * 1e3:.1f} ms, and "
                f"the nearest other {other.p90_s * 1e3:.1f} ms: its network or its load, not the "
                "server",
            )
