"""Two verdicts on a point, kept apart: is the measurement sound, and did it keep the rules.

Both are pure: facts in, reasons out. No reason means yes.
"""

from dataclasses import dataclass

from agentx_replay.analysis.instrument import InstrumentReport
from agentx_replay.analysis.metrics import PointSummary
from agentx_replay.wording import counted

MAX_SHARE = 0.01
MAX_PROMPT_LENGTH_ERROR = 0.005
MIN_OBSERVED_SHARE_OF_WINDOW = 0.95
MIN_COMPARABLE_WINDOW_S = 900.0


@dataclass(frozen=True, slots=True)
class Conduct:
    """What happened to the run. ``failure`` says why it ended early or never reached its window
    (warm-up failed, too many failures), None where it did not.
    """

    interrupted: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How far the run kept its scenario's rules.

    ``comparable`` is the scenario's own word; ``overridden`` names rules changed;
    ``other_corpus``, ``speculative_decoding`` and ``no_server`` (what was measured instead of a
    server) say in words what differs, None where nothing. ``sessions`` is how many were to be
    played and ``max_sessions`` how many the scenario takes, None where it takes all. ``corpus``
    is the fingerprint of the whole corpus. None also where an older version wrote the point.
    """

    scenario: str
    comparable: bool
    window_s: float
    overridden: tuple[str, ...] = ()
    sessions_left_out: int = 0
    requests_left_out: int = 0
    other_corpus: str | None = None
    live_history: bool = False
    tool_messages: bool = False
    speculative_decoding: str | None = None
    no_server: str | None = None
    sessions: int | None = None
    max_sessions: int | None = None
    corpus: str | None = None

    @property
    def sessions_lacking(self) -> bool:
        """Whether the corpus has fewer sessions than the scenario takes: it is another corpus."""
        if self.sessions is None or self.max_sessions is None:
            return False
        return self.sessions < self.max_sessions


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both verdicts with every reason against."""

    invalid_reasons: tuple[str, ...]
    incomparable_reasons: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """Whether the measurement is sound; this alone sets the exit code."""
        return not self.invalid_reasons

    @property
    def comparable(self) -> bool:
        """Whether it may stand beside other results of its scenario."""
        return not self.incomparable_reasons


def invalid_reasons(
    summary: PointSummary | None,
    instrument: InstrumentReport | None,
    conduct: Conduct,
    nominal_window_s: float,
) -> tuple[str, ...]:
    """Return why a point is not valid. ``summary`` is None where the window never opened."""
    reasons = []
    if conduct.interrupted:
        reasons.append("interrupted")
    if conduct.failure is not None:
        reasons.append(conduct.failure)
    if summary is None:
        return (*reasons, *(() if reasons else ("the window never opened",)))
    reasons += _outcome_reasons(summary)
    reasons += _observation_reasons(summary, nominal_window_s)
    if instrument is not None:
        reasons += instrument.saturated
    return tuple(reasons)


def _outcome_reasons(summary: PointSummary) -> list[str]:
    counts = summary.counts
    if not counts.sent:
        return ["no request was sent in the window"]
    kinds = (
        ("failed", counts.failed),
        ("overflowed the context", counts.overflow),
        ("were cut at the end of the grace", counts.cut),
        ("had another length than asked", counts.length_mismatch),
    )
    reasons = [
        f"{number} of {counted(counts.sent, 'request')} ({number / counts.sent:.1%}) {what}, "
        f"over {MAX_SHARE:.0%}"
        for what, number in kinds
        if number > MAX_SHARE * counts.sent
    ]
    if not counts.measured:
        reasons.append("no request succeeded")
    if counts.without_usage:
        reasons.append(
            f"the server reported no usage for {counts.without_usage} of "
            f"{counted(counts.measured, 'response')}"
        )
    return reasons


def _observation_reasons(summary: PointSummary, nominal_window_s: float) -> list[str]:
    reasons = []
    lengths = summary.prompt_lengths
    if lengths is not None and abs(lengths.aggregate_error) > MAX_PROMPT_LENGTH_ERROR:
        reasons.append(
            f"prompts were {lengths.aggregate_error:+.2%} off the recorded length in aggregate, "
            f"over {MAX_PROMPT_LENGTH_ERROR:.1%}"
        )
    if summary.counts.measured:
        seen_s = _observed_until_s(summary, nominal_window_s)
        needed_s = MIN_OBSERVED_SHARE_OF_WINDOW * nominal_window_s
        if seen_s is None:
            reasons.append("no ITL was observed")
        elif seen_s < needed_s:
            reasons.append(
                f"the last TTFT or ITL was observed {seen_s:.1f} s into the window, "
                f"before {needed_s:.1f} s (95 % of it)"
            )
    return reasons


def _observed_until_s(summary: PointSummary, nominal_window_s: float) -> float | None:
    """Return until when TTFT and ITL were both seen, as agentx-harness 1.0.12 asks of windows of
    900 s and more; in a shorter one, where a single response may span the rest, until when either
    was.
    """
    ttft_s, itl_s = summary.last_ttft_s, summary.last_itl_s
    if ttft_s is None or itl_s is None:
        return None
    both = nominal_window_s >= MIN_COMPARABLE_WINDOW_S
    return min(ttft_s, itl_s) if both else max(ttft_s, itl_s)


def incomparable_reasons(rules: Rules, summary: PointSummary | None) -> tuple[str, ...]:
    """Return why a point may not stand beside other results of its scenario, even of its corpus.

    ``summary`` is None where the window never opened.
    """
    cases = (
        (summary is None or not summary.counts.measured, "nothing was measured"),
        (rules.no_server is not None, f"{rules.no_server}"),
        (not rules.comparable, f"scenario {rules.scenario} is for a quick look"),
        (bool(rules.overridden), f"rules overridden: {', '.join(rules.overridden)}"),
        (
            rules.window_s < MIN_COMPARABLE_WINDOW_S,
            f"the window is {rules.window_s:g} s, under {MIN_COMPARABLE_WINDOW_S:g} s",
        ),
        (rules.sessions_left_out > 0, f"{counted(rules.sessions_left_out, 'session')} left out"),
        (rules.requests_left_out > 0, f"{counted(rules.requests_left_out, 'request')} left out"),
        (rules.other_corpus is not None, f"another corpus: {rules.other_corpus}"),
        (
            rules.sessions_lacking,
            f"{counted(rules.sessions or 0, 'session')}, the scenario takes the first "
            f"{rules.max_sessions}: another corpus",
        ),
        (rules.live_history, "live output was to be fed back (--live-history)"),
        (rules.tool_messages, "answers were sent as tool calls (--tool-messages)"),
        (rules.speculative_decoding is not None, f"speculative: {rules.speculative_decoding}"),
    )
    return tuple(reason for holds, reason in cases if holds)
