"""A plan for a reader: per lane what is played and from where, and the totals of a level."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.plan.selection import Selection, context_tokens
from agentx_replay.report.sweep_lines import wrapping
from agentx_replay.traces.model import RecordedRequest, Session
from agentx_replay.wording import counted

_TEXT_BYTES_PER_TOKEN = 5
_COPIES_IN_USE = 3
"""A play's JSON, the next one being built from it, and the request on its way out."""
_ANSWER_BYTES_PER_TOKEN = 16
"""A token of an answer that is kept: four characters, each of the four bytes it may take."""


@dataclass(frozen=True, slots=True)
class LanePlan:
    """A lane's first play. ``t_star_s`` in recorded seconds; ``primers`` and ``first`` are
    (stream, turn, input tokens): what is sent once before, and each live stream's next request.
    """

    lane: int
    session_id: str
    t_star_s: float
    primers: tuple[tuple[str, int, int], ...]
    first: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """The plan and totals of one start of a level.

    ``wrapping`` says that sessions repeat across lanes, None where they do not. ``text_bytes``
    bounds the text of all live plays. ``primer_spread_s`` is from the first primer to the last;
    the level takes at least ``least_s``, were the server infinitely fast, and at most ``most_s``,
    with a warm-up that is given up after ``warmup_timeout_s``. ``first_requests`` and the tokens
    are those of the lanes' first plays from t* on, whether they fit into the window or not.
    """

    concurrency: int
    start: int
    seed: int
    fingerprint: str
    lanes: tuple[LanePlan, ...]
    primers: int
    primer_tokens: int
    primer_spread_s: float
    warmup_requests: int
    first_requests: int
    first_input_tokens: int
    first_output_tokens: int
    wrapping: str | None
    text_bytes: int
    window_s: float
    grace_s: float
    least_s: float
    most_s: float
    warmup_timeout_s: float


def lane_plan(lane: int, planned: PlannedPlay) -> LanePlan:
    """Return what a lane's first play sends first."""
    start, streams = planned.start, planned.graph.streams
    return LanePlan(
        lane=lane,
        session_id=planned.session.id,
        t_star_s=start.t_star_s or 0.0,
        primers=tuple(_named(planned, p.step.stream, p.step.turn) for p in start.primers),
        first=tuple(
            _named(planned, stream.index, start.turns[stream.index])
            for stream in streams
            if start.live[stream.index] and start.turns[stream.index] < len(stream.steps)
        ),
    )


def _named(planned: PlannedPlay, stream: int, turn: int) -> tuple[str, int, int]:
    of = planned.graph.streams[stream]
    return of.name, turn, of.steps[turn].request.input_tokens


def level_plan(plan: Plan, *, live_history: bool = False) -> LevelPlan:
    """Return a level's plan, worked out without sending anything.

    With ``live_history`` its plays also hold the texts that their prompts consist of.
    """
    plays = [plan.play(lane, 0) for lane in range(plan.concurrency)]
    lanes = tuple(lane_plan(lane, play) for lane, play in enumerate(plays))
    ahead = [request for play in plays for request in _ahead(play)]
    leads_s = [primer.lead_s for play in plays for primer in play.start.primers]
    spread_s = max(leads_s) - min(leads_s) if leads_s else 0.0
    scenario = plan.scenario
    held = [_text_bytes(each, live_history) for each in plan.library.selection.sessions]
    largest = sorted(held, reverse=True)
    return LevelPlan(
        concurrency=plan.concurrency,
        start=plan.start,
        seed=plan.seed,
        fingerprint=plan.fingerprint,
        lanes=lanes,
        primers=len(leads_s),
        primer_tokens=sum(tokens for lane in lanes for _, _, tokens in lane.primers),
        primer_spread_s=spread_s,
        warmup_requests=plan.concurrency * scenario.warmup_requests,
        first_requests=len(ahead),
        first_input_tokens=sum(request.input_tokens for request in ahead),
        first_output_tokens=sum(max(1, request.output_tokens) for request in ahead),
        wrapping=wrapping(plan),
        text_bytes=sum(largest[i % len(largest)] for i in range(plan.concurrency)),
        window_s=scenario.window_s,
        grace_s=scenario.grace_s,
        least_s=spread_s + scenario.window_s,
        most_s=scenario.warmup_timeout_s + scenario.window_s + scenario.grace_s,
        warmup_timeout_s=scenario.warmup_timeout_s,
    )


def _ahead(planned: PlannedPlay) -> list[RecordedRequest]:
    """Return a play's requests from where it starts."""
    return [
        step.request
        for stream in planned.graph.streams
        for step in stream.steps[planned.start.turns[stream.index] :]
    ]


def _text_bytes(session: Session, live_history: bool) -> int:
    """Return the most that a play of a session may hold of text."""
    requests = session.requests()
    size_bytes = max(map(context_tokens, requests)) * _TEXT_BYTES_PER_TOKEN * _COPIES_IN_USE
    if live_history:
        words = (len(session.blocks) + len(requests)) * session.block_size
        size_bytes += words * _TEXT_BYTES_PER_TOKEN
        size_bytes += sum(each.output_tokens for each in requests) * _ANSWER_BYTES_PER_TOKEN
    return size_bytes


def selection_totals(selection: Selection) -> dict[str, Any]:
    """Return sessions, requests, tokens and unlimited-cache reuse of what may be played."""
    requests = [request for session in selection.sessions for request in session.requests()]
    blocks = sum(request.block_count for request in requests)
    known = sum(request.known_blocks for request in requests)
    return {
        "sessions": len(selection.sessions),
        "requests": len(requests),
        "input_tokens": sum(request.input_tokens for request in requests),
        "output_tokens": sum(max(1, request.output_tokens) for request in requests),
        "reuse": known / blocks if blocks else 0.0,
    }


def plan_lines(level: LevelPlan, memory: Sequence[str]) -> list[str]:
    """Return the plan of a level's first start in lines of at most 100 columns, of a further start
    one line; ``memory`` is what it may take.
    """
    if level.start > 1:
        return [
            f"concurrency {level.concurrency}, start {level.start} (seed {level.seed}): plan "
            f"{level.fingerprint}"
        ]
    wrapped = f", {level.wrapping}" if level.wrapping else ""
    each = level.warmup_requests // level.concurrency
    lines = [
        f"concurrency {level.concurrency}: plan {level.fingerprint}{wrapped}",
        *_primers(level),
        f"    then {counted(level.warmup_requests, 'request')} without pauses ({each} a lane), one "
        "token each",
        f"  first sessions from t* on: {counted(level.first_requests, 'request')}, "
        f"{level.first_input_tokens:,} tokens in, {level.first_output_tokens:,} out",
        "    how many of them the window sees depends on the server (--simulate models one)",
        f"  window {level.window_s:g} s, drain up to {level.grace_s:g} s: at least "
        f"{_duration(level.least_s)} and what the warm-up takes,",
        f"    at most {_duration(level.most_s)}: a warm-up is given up after "
        f"{_duration(level.warmup_timeout_s)}",
        *(f"  {line}" for line in memory),
    ]
    for lane in level.lanes:
        lines.append(
            f"  lane {lane.lane:>4}  {lane.session_id[:32]:<32}  t* {lane.t_star_s:>11,.1f} s"
        )
        lines += [_step_line("primer", *primer) for primer in lane.primers]
        lines += [_step_line("from", *first) for first in lane.first]
    return lines


def _primers(level: LevelPlan) -> list[str]:
    """Return what is sent before t*, with what a primer is."""
    if not level.primers:
        return ["  warm-up: no primers, for no stream has a request before t*"]
    spread = f"over {level.primer_spread_s:.1f} s, " if level.primer_spread_s >= 0.05 else ""
    return [
        f"  warm-up: {counted(level.primers, 'primer')} (each stream's last request before t*, "
        "one token)",
        f"    {spread}{counted(level.primer_tokens, 'token')} in",
    ]


def whole_time_s(plans: Sequence[LevelPlan]) -> dict[str, float]:
    """Return how long all starts of all levels take together, in s."""
    return {
        "least_s": sum(plan.least_s for plan in plans),
        "most_s": sum(plan.most_s for plan in plans),
    }


def whole_time(plans: Sequence[LevelPlan]) -> list[str]:
    """Return how long all takes, if there are several levels or starts; of several starts also what
    they send together.
    """
    if len(plans) == 1:
        return []
    whole = whole_time_s(plans)
    starts = max(plan.start for plan in plans)
    levels = len(plans) // starts
    what = f"all {levels} levels" if levels > 1 else "the level"
    of_each = f", {starts} starts of each" if starts > 1 else ""
    lines = [
        f"{what}{of_each}: at least {_duration(whole['least_s'])} and what the warm-ups take, "
        f"at most {_duration(whole['most_s'])}"
    ]
    if starts > 1:
        warmups = sum(plan.primers + plan.warmup_requests for plan in plans)
        first = sum(plan.first_requests for plan in plans)
        tokens = sum(plan.first_input_tokens for plan in plans)
        lines.append(
            f"  in all {counted(warmups, 'request')} of warm-ups, and first sessions of "
            f"{counted(first, 'request')}, {tokens:,} tokens in"
        )
    return lines


def _step_line(what: str, stream: str, turn: int, tokens: int) -> str:
    return f"      {what:<6} {stream[:40]:<40} turn {turn:>4}, {tokens:>9,} tokens in"


def _duration(seconds: float) -> str:
    """90 s, 61.2 min."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
