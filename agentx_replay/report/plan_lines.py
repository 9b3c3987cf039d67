"""A plan for a reader: per lane what is played and from where, and the totals of a level."""

from dataclasses import dataclass
from typing import Any

from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.plan.selection import Selection, context_tokens
from agentx_replay.traces.model import Session

_TEXT_BYTES_PER_TOKEN = 5
_COPIES_IN_USE = 3
"""A play's JSON, the next one being built from it, and the request on its way out."""


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
    """A level's plan and totals. ``text_bytes`` bounds the text of all live plays."""

    concurrency: int
    fingerprint: str
    lanes: tuple[LanePlan, ...]
    primer_tokens: int
    warmup_requests: int
    text_bytes: int
    window_s: float
    grace_s: float


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


def level_plan(plan: Plan) -> LevelPlan:
    """Return a level's plan, worked out without sending anything."""
    lanes = tuple(lane_plan(lane, plan.play(lane, 0)) for lane in range(plan.concurrency))
    peaks = sorted(map(_peak_tokens, plan.library.selection.sessions), reverse=True)
    largest = [peaks[i % len(peaks)] for i in range(plan.concurrency)]
    return LevelPlan(
        concurrency=plan.concurrency,
        fingerprint=plan.fingerprint,
        lanes=lanes,
        primer_tokens=sum(tokens for lane in lanes for _, _, tokens in lane.primers),
        warmup_requests=plan.concurrency * plan.scenario.warmup_requests,
        text_bytes=sum(largest) * _TEXT_BYTES_PER_TOKEN * _COPIES_IN_USE,
        window_s=plan.scenario.window_s,
        grace_s=plan.scenario.grace_s,
    )


def _peak_tokens(session: Session) -> int:
    return max(map(context_tokens, session.requests()))


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


def plan_lines(level: LevelPlan) -> list[str]:
    """Return a level's plan in lines of at most 100 columns."""
    lines = [
        f"concurrency {level.concurrency}: plan {level.fingerprint}",
        f"  warm-up: {sum(len(lane.primers) for lane in level.lanes)} primers, "
        f"{level.primer_tokens:,} tokens; then {level.warmup_requests} requests",
        f"  window {level.window_s:g} s, drain up to {level.grace_s:g} s; text of live plays at "
        f"most {level.text_bytes / 1e6:,.0f} MB",
    ]
    for lane in level.lanes:
        head = f"  lane {lane.lane:>4}  {lane.session_id[:32]:<32}  t* {lane.t_star_s:>11,.1f} s"
        primed = "  primed" if lane.primers else ""
        lines.append(f"{head}{primed}")
        lines += [
            f"             {name[:40]:<40} from turn {turn:>4}, {tokens:>9,} tokens in"
            for name, turn, tokens in lane.first
        ]
    return lines
