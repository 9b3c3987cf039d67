"""One point, from records and facts to numbers and findings: what a run and a report both call.

The facts of a point are kept in ``point.json``, so that a report made later gives the same answer
as the run did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from agentx_replay.analysis import findings as rules
from agentx_replay.analysis.client_lag import (
    InstrumentReport,
    Samples,
    Timestamps,
    examine,
    samples_of,
)
from agentx_replay.analysis.early import STOPPED_EARLY
from agentx_replay.analysis.facts import Conduct, Rules
from agentx_replay.analysis.fidelity import Fidelity
from agentx_replay.analysis.findings import Finding, Kind
from agentx_replay.analysis.goodput import Jobs, SentRequests, jobs_of, sent_requests
from agentx_replay.analysis.latency import end_to_end_ns, present, response_itl, ttft_ns
from agentx_replay.analysis.machines import (
    MachineFacts,
    MachineLatency,
    close_sends,
    machine_latencies,
)
from agentx_replay.analysis.metrics import PointSummary, PromptLengths, speeds, summarise
from agentx_replay.analysis.percentiles import Spread, spread
from agentx_replay.analysis.responses import (
    Records,
    Responses,
    Window,
    happened_in,
    measured,
    observed_window,
    records_of,
    sent_in,
)
from agentx_replay.analysis.server import (
    CacheAgreement,
    Metrics,
    ServerFacts,
    cache_agreement,
    metrics_of,
    server_facts,
    speculation,
)
from agentx_replay.analysis.starts import mean_of_starts
from agentx_replay.analysis.throughput import headline_of
from agentx_replay.analysis.timeline import timeline_of
from agentx_replay.analysis.tokens import TokenFigures, token_figures
from agentx_replay.analysis.workload import LaneTokens, Mix, lane_tokens, mix_of
from agentx_replay.errors import UsageError
from agentx_replay.results.documents import typed
from agentx_replay.results.layout import Measurement, point_file
from agentx_replay.results.run_directory import PointStatus, StoredPoint, check_records
from agentx_replay.results.schema import SERVER


@dataclass(frozen=True, slots=True)
class PointFacts:
    """What is known about a point beside its records. ``window`` is None where it never opened;
    ``gpus`` None where nobody said; ``start`` says which start of its level the point is,
    ``seed`` the seed of its plan.
    ``timestamps`` is who stamped the arrivals: the kernel, or else the process that reads them.
    ``accept_length`` is how many tokens a step of the engine commits, None where it does not draft
    or tell. ``machines`` played it; none if this one did. ``refusals`` say what fields the server
    refuses, in words.
    """

    concurrency: int
    gpus: int | None
    window: Window | None
    rules: Rules
    conduct: Conduct
    start: int = 1
    timestamps: Timestamps = "process"
    seed: int | None = None
    accept_length: float | None = None
    machines: tuple[MachineFacts, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """How latencies are spread, None where there are none; and mean tokens an event: as the server
    tells of each, else completion tokens over token events; None where it tells neither.
    """

    response_itl: Spread | None
    token_itl: Spread | None
    ttft: Spread | None
    end_to_end: Spread | None
    tokens_per_event: float | None


@dataclass(frozen=True, eq=False)
class Point:
    """A level, or one start of it, as measured.

    What comes from the responses of the window is None where it never opened; ``fidelity`` also
    where the run was killed. ``agreement`` is None where the server does not tell of its cache.
    ``speeds`` are those under the definitions of ``curve.py``. ``sessions_played`` counts the
    different recorded sessions of which a request was sent in the window. ``contradicted`` are
    facts of the system, each with its value and the one that the server tells. ``requests`` and
    ``jobs`` are what objectives are judged by. ``stored`` is where it is on disk, None until it has
    been read back.
    """

    status: PointStatus
    facts: PointFacts
    summary: PointSummary | None
    instrument: InstrumentReport | None
    fidelity: Fidelity | None = None
    agreement: CacheAgreement | None = None
    server: ServerFacts | None = None
    profile: Profile | None = None
    speeds: Mapping[str, float | None] = field(default_factory=dict)
    lanes: LaneTokens | None = None
    mix: Mix | None = None
    sessions_played: int = 0
    contradicted: tuple[tuple[str, Any, Any], ...] = ()
    requests: SentRequests | None = None
    jobs: Jobs | None = None
    machine_latencies: tuple[MachineLatency, ...] = ()
    close_sends: tuple[int, int] = (0, 0)
    stored: StoredPoint | None = None

    @property
    def concurrency(self) -> int:
        return self.facts.concurrency

    @property
    def measurement(self) -> Measurement:
        return Measurement(self.facts.concurrency, self.facts.start)

    @property
    def name(self) -> str:
        """What people read: its concurrency, and its start but for the first."""
        return self.measurement.in_words

    @property
    def plan_fingerprint(self) -> str | None:
        """The fingerprint of what it played; None if it is not on record."""
        return self.stored.document.get("plan_fingerprint") if self.stored else None

    @property
    def on_curve(self) -> tuple[float, float] | None:
        """Interactivity and headline throughput of the system; None if not valid, or without."""
        summary = self.summary
        if not self.valid or summary is None or summary.rates.headline is None:
            return None
        if summary.interactivity is None:
            return None
        return summary.interactivity, summary.rates.headline.total_tokens_per_s

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Every judgement on the point: what makes it invalid first, then what keeps it from being
        compared, then warnings and what the replay broke. A point that was not played to its end
        has no warning that follows from that.
        """
        facts, summary, instrument = self.facts, self.summary, self.instrument
        lived, to_its_end = facts.rules.live_history, self.status not in _NOT_TO_ITS_END
        found = [*rules.course(self.status, facts.conduct, opened=summary is not None)]
        found += rules.comparability(facts.rules, summary.counts if summary else None)
        if instrument is not None:
            seen = zip(facts.machines, self.machine_latencies, strict=False)
            found += rules.saturation(instrument, [(m.host, own.instrument) for m, own in seen])
        if summary is not None:
            counts = summary.counts
            found += rules.outcomes(counts)
            found += rules.observation(summary, facts.rules.window_s)
            found += rules.arrivals(summary.itl_error, counts)
            found += [] if lived else rules.known_before(summary)
        if summary is not None and to_its_end:
            found += rules.weakness(summary)
            found += rules.window_length(summary, facts.concurrency, facts.rules.window_s)
            found += rules.answers_fed_back(self.fidelity) if self.fidelity and lived else ()
            found += rules.cache_counts(counts)
            found += rules.cache_agreement(self.agreement) if self.agreement else ()
            found += rules.machines_alike(facts.machines, self.machine_latencies)
        if summary is not None:
            found += rules.failures(counts)
            found += rules.token_itl(instrument, summary) if instrument else ()
        found += rules.context(facts.rules)
        found += rules.fields_refused(facts.refusals)
        found += rules.facts_contradicted(self.contradicted)
        found += rules.fidelity(self.fidelity) if self.fidelity else ()
        found = [rules.at_level(each, facts.concurrency) for each in found]
        return tuple(sorted(found, key=lambda each: _ORDER.index(each.kind)))

    def has(self, code: str) -> bool:
        return any(finding.code == code for finding in self.findings)

    def texts(self, kind: Kind) -> tuple[str, ...]:
        return tuple(finding.text for finding in self.findings if finding.kind is kind)

    @property
    def valid(self) -> bool:
        """Whether the measurement is sound; this alone sets the exit code."""
        return not self.texts(Kind.INVALID)

    @property
    def comparable(self) -> bool:
        """Whether it kept the rules of its scenario, valid or not."""
        return not self.texts(Kind.INCOMPARABLE)


_ORDER = (Kind.INVALID, Kind.INCOMPARABLE, Kind.WARNING, Kind.BROKEN)
_NOT_TO_ITS_END = (PointStatus.INTERRUPTED, PointStatus.RUNNING)


def point_findings(points: Sequence[Point]) -> tuple[Finding, ...]:
    """Return the findings of ``points``, each once, with the levels that it is of."""
    levels: dict[Finding, list[Measurement]] = {}
    for point in points:
        for finding in point.findings:
            levels.setdefault(finding, []).append(point.measurement)
    return tuple(replace(finding, levels=tuple(of)) for finding, of in levels.items())


def client_alone_failed(points: Sequence[Point]) -> bool:
    """Whether points are not valid for no other reason than that this client was too slow."""
    blamed = {f.blame for point in points for f in point.findings if f.kind is Kind.INVALID}
    return blamed == {"client"}


def run_findings(points: Sequence[Point]) -> tuple[Finding, ...]:
    """Return the findings of ``points`` and of the curve through the valid ones."""
    lengths: dict[int, list[PromptLengths]] = {}
    speeds_of: dict[int, list[float]] = {}
    for point in points:
        if point.valid and point.summary is not None and point.summary.prompt_lengths is not None:
            lengths.setdefault(point.concurrency, []).append(point.summary.prompt_lengths)
        if point.on_curve is not None:
            speeds_of.setdefault(point.concurrency, []).append(point.on_curve[0])
    means = {level: mean_of_starts(found) for level, found in speeds_of.items()}
    return (*point_findings(points), *rules.like_work(lengths), *rules.turns_back(means))


def measure_point(
    records: Records,
    samples: Samples | None,
    facts: PointFacts,
    status: PointStatus,
    fidelity: Fidelity | None = None,
    metrics: Metrics | None = None,
    plays: pa.Table | None = None,
) -> Point:
    window, responses = facts.window, records.responses
    if window is None:
        return Point(status, facts, None, None, fidelity)
    tokens, timeline = token_figures(records, window), timeline_of(responses, window)
    window_set = sent_in(responses, window)
    ok = window_set.where(measured(window_set))
    summary = summarise(window_set, ok, window, tokens, facts.accept_length)
    sent = happened_in(responses.send_ns, window)
    return Point(
        status,
        facts,
        summary,
        examine(window_set, window, samples, facts.timestamps) if samples is not None else None,
        fidelity,
        agreement=cache_agreement(metrics, timeline, window.length_s) if metrics else None,
        server=server_facts(metrics, timeline, window.length_s) if metrics else None,
        profile=_profile(ok, tokens),
        speeds=speeds(ok, summary, tokens),
        lanes=lane_tokens(responses, window, facts.concurrency),
        mix=mix_of(ok),
        sessions_played=len(np.unique(responses.session[sent])),
        requests=sent_requests(responses, window),
        jobs=None if plays is None else jobs_of(_times(plays), responses, window),
        machine_latencies=machine_latencies(
            window_set, window, samples, facts.timestamps, facts.machines
        ),
        close_sends=close_sends(responses.send_ns[sent], responses.lane[sent], facts.machines)
        if facts.machines
        else (0, 0),
    )


def _times(plays: pa.Table) -> list[tuple[float | None, int, int | None]]:
    columns = (plays[name].to_pylist() for name in ("t_star_s", "start_ns", "end_ns"))
    return list(zip(*columns, strict=True))


def _profile(ok: Responses, tokens: TokenFigures) -> Profile:
    told = ~np.isnan(ok.told_tokens)
    counts = ok.told_tokens
    if not told.any():
        told, counts = ~np.isnan(ok.completion_tokens) & (ok.event_counts > 0), ok.completion_tokens
    events = int(ok.event_counts[told].sum())
    return Profile(
        response_itl=spread(present(response_itl(ok).itl_ns)),
        token_itl=spread(*tokens.token_itl.seen()),
        ttft=spread(present(ttft_ns(ok))),
        end_to_end=spread(end_to_end_ns(ok)),
        tokens_per_event=float(counts[told].sum() / events) if events else None,
    )


def point_document(point: Point) -> dict[str, Any]:
    """Return what ``point.json`` says beside the level and the status."""
    return {
        "valid": point.valid,
        "invalid_reasons": point.texts(Kind.INVALID),
        "comparable": point.comparable,
        "incomparable_reasons": point.texts(Kind.INCOMPARABLE),
        "findings": [finding.document() for finding in point.findings],
        "facts": asdict(point.facts),
        "summary": point.summary and asdict(point.summary),
        "instrument": point.instrument and asdict(point.instrument),
        "fidelity": point.fidelity and asdict(point.fidelity),
    }


def facts_document(facts: PointFacts) -> dict[str, Any]:
    """Return what ``point.json`` says of a point that has only begun."""
    return {"facts": asdict(facts)}


def stored_point(stored: StoredPoint) -> Point:
    """Return a point from a run directory, also one that a crash or Ctrl-C left unfinished.

    Its numbers are computed again from its records. Raises ``UsageError`` where ``point.json``
    lacks the facts, or the records are not its own.
    """
    check_records(stored)
    records, facts = records_of(stored.stored_requests().groups), _facts_of(stored)
    if stored.status is PointStatus.RUNNING:
        window = facts.window or observed_window(records.responses, facts.rules.window_s)
        facts = replace(facts, window=window)
    metrics = level_metrics(stored.directory, facts.window)
    if stored.status is PointStatus.RUNNING and metrics and facts.window is not None:
        drafted = speculation(metrics, facts.window.length_s)
        facts = replace(facts, accept_length=drafted.accept_length if drafted else None)
    samples = samples_of(stored.instrument())
    of = stored.status, _fidelity_of(stored), metrics, stored.plays()
    point = measure_point(records, samples, facts, *of)
    return replace(point, stored=stored)


def level_metrics(directory: Path, window: Window | None) -> Metrics:
    return {} if window is None else metrics_of(SERVER.read(directory), window)


def _fidelity_of(stored: StoredPoint) -> Fidelity | None:
    document = stored.document.get("fidelity")
    try:
        return None if document is None else typed(Fidelity, document, "fidelity")
    except ValueError as error:
        raise UsageError(
            "fidelity-damaged",
            f"{point_file(stored.directory)} is damaged: {error}",
            "move its directory away",
        ) from error


def _facts_of(stored: StoredPoint) -> PointFacts:
    path = point_file(stored.directory)
    try:
        facts = typed(PointFacts, stored.document.get("facts"), "facts")
    except ValueError as error:
        raise UsageError(
            "facts-missing",
            f"{path} lacks the facts of the point ({error})",
            "move its directory away",
        ) from error
    for holds, what in (
        (facts.concurrency == stored.concurrency, "facts.concurrency is another level's"),
        (facts.start == stored.start, "facts.start is another start's"),
        (facts.gpus is None or 0 < facts.gpus < 2**31, "facts.gpus is no number of GPUs"),
        (facts.rules.window_s > 0, "facts.rules.window_s is not above 0"),
        (_is_a_time(facts.window), "facts.window does not open before it closes"),
    ):
        if not holds:
            raise UsageError(
                "facts-damaged", f"{path} is damaged: {what}", "move its directory away"
            )
    return facts


def _is_a_time(window: Window | None) -> bool:
    """Whether a window, if it opened, lasted, within the stamps that a record can hold."""
    if window is None:
        return True
    return 0 <= window.open_ns < window.close_ns < 2**63 and window.nominal_s > 0


def point_row(point: Point) -> dict[str, Any]:
    gpus, window_s = point.facts.gpus, point.facts.rules.window_s
    row = {name: _at(point, path) for name, path in _CELLS.items()}
    row |= {name: getattr(point.summary and point.summary.counts, name, 0) for name in STATUSES}
    row["requests"] = _at(point, "summary.counts.sent") or 0
    row["headline"] = headline_of(window_s)
    early = point.facts.conduct.failure_code == STOPPED_EARLY
    row["stopped_early"] = point.facts.conduct.failure if early else None
    row["objective_margins"] = row["design_effects"] = None  # a run is judged as a whole
    for kind in (Kind.INVALID, Kind.INCOMPARABLE):
        row[f"{kind.value}_reasons"] = list(point.texts(kind))
    for name, path in _RATES.items():
        rate = _at(point, f"summary.rates.{path}_tokens_per_s")
        row[f"{name}_tokens_per_s"] = rate
        row[f"{name}_tokens_per_s_per_gpu"] = None if rate is None or not gpus else rate / gpus
    halves = point.summary and point.summary.halves
    for name in ("p90_itl_s", "tokens_per_s"):
        row[f"first_half_{name}"], row[f"second_half_{name}"] = getattr(halves, name, (None,) * 2)
    row["settled"] = halves and halves.settled_s is not None
    return row


def _at(value: Any, path: str) -> Any:
    """Return what a chain of attributes ends at, None where one of them is."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


_LATENCIES = {
    "response_itl": (50, 90, 99),
    "token_itl": (50, 90, 99),
    "ttft": (50, 90, 99),
    "end_to_end": (50, 90),
}
_CELLS = {
    "concurrency": "facts.concurrency",
    "start": "facts.start",
    "seed": "facts.seed",
    "status": "status.value",
    "valid": "valid",
    "comparable": "comparable",
    "gpus": "facts.gpus",
    "window_s": "facts.rules.window_s",
    "interactivity": "summary.interactivity",
    "response_itl_gathered_error": "summary.itl_error.gathered_error",
    "ttft_gathered_error": "summary.itl_error.ttft_error",
    "response_itl_p90_least_s": "summary.itl_error.least_s",
    "response_itl_p90_most_s": "summary.itl_error.most_s",
    "cache_hit": "summary.cache_hit",
    "cache_hit_theoretical": "summary.cache_hit_theoretical",
    "settled_s": "summary.halves.settled_s",
    "plays": "summary.play_weights.plays",
    "effective_plays": "summary.play_weights.effective",
    "largest_play_share": "summary.play_weights.largest_share",
    **{f"{n}_p{p}_s": f"summary.{n}.p{p}_s" for n, of in _LATENCIES.items() for p in of},
}
STATUSES = ("ok", "length_mismatch", "failed", "overflow", "cut")
_RATES = {
    "total": "headline.total",
    "uncached": "headline.uncached",
    "output": "headline.output",
    "windowed": "windowed.total",
    "overall": "overall.total",
}
