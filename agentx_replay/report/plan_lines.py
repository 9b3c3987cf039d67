"""What is said before anything is sent: corpus, what was left out, plans, and what each lane plays
and from where.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx_replay.analysis.facts import too_long
from agentx_replay.plan.plan import Plan, PlannedPlay
from agentx_replay.plan.selection import Selection, context_tokens
from agentx_replay.report.numerals import agents, rate
from agentx_replay.report.tables import Section
from agentx_replay.results.layout import Measurement
from agentx_replay.scenario import Scenario
from agentx_replay.text_format import counted, lasting
from agentx_replay.traces.model import Corpus, RecordedRequest, Session
from agentx_replay.traces.statistics import duplicate_families

_TEXT_BYTES_PER_TOKEN = 5
_COPIES_IN_USE = 3
"""A play's JSON, the next one being built from it, and the request on its way out."""
_ANSWER_BYTES_PER_TOKEN = 16
"""A token of an answer that is kept: four characters, each of the four bytes it may take."""


@dataclass(frozen=True, slots=True)
class LanePlan:
    """A lane's first play. ``t_star_s`` in recorded seconds; ``primers`` and ``first`` are
    (conversation, turn, input tokens): what is sent once before, and each live conversation's next
    request.
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


def _lane_plan(lane: int, planned: PlannedPlay) -> LanePlan:
    """Return what a lane's first play sends first."""
    start, conversations = planned.start, planned.graph.conversations
    return LanePlan(
        lane=lane,
        session_id=planned.session.id,
        t_star_s=start.t_star_s or 0.0,
        primers=tuple(_named(planned, p.turn.conversation, p.turn.number) for p in start.primers),
        first=tuple(
            _named(planned, conversation.index, start.turns[conversation.index])
            for conversation in conversations
            if start.live[conversation.index]
            and start.turns[conversation.index] < len(conversation.turns)
        ),
    )


def _named(planned: PlannedPlay, conversation: int, turn: int) -> tuple[str, int, int]:
    of = planned.graph.conversations[conversation]
    return of.name, turn, of.turns[turn].request.input_tokens


def level_plan(plan: Plan, *, live_history: bool = False) -> LevelPlan:
    """Return a level's plan, worked out without sending anything.

    With ``live_history`` its plays also hold the texts that their prompts consist of.
    """
    plays = [plan.play(lane, 0) for lane in range(plan.concurrency)]
    lanes = tuple(_lane_plan(lane, play) for lane, play in enumerate(plays))
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
        turn.request
        for conversation in planned.graph.conversations
        for turn in conversation.turns[planned.start.turns[conversation.index] :]
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


# --- levels --------------------------------------------------------------------------------------


def levels_section(plans: Sequence[LevelPlan], sessions: int, memory: Sequence[int]) -> Section:
    """Return a row for each start of a level; ``sessions`` may be played, and a level may take
    ``memory`` bytes.
    """
    rows = [
        [
            Measurement(plan.concurrency, plan.start).in_words,
            f"{min(plan.concurrency, sessions)} of {sessions}",
            *_totals([plan]),
            f"{held / 1e6:,.0f}",
        ]
        for plan, held in zip(plans, memory, strict=True)
    ]
    if len(plans) > 1:
        rows.append(["all", "", *_totals(plans), ""])
    heads = (
        "agents", "sessions\nbegun", "warm-up\nreq", "first\nreq", "tokens\nin", "tokens\nout",
        "time\nat least", "memory\nMB at most",
    )  # fmt: skip
    wrapped = [plan for plan in plans if plan.wrapping and plan.start == 1]
    notes = [
        "first: of the sessions that the lanes begin with, from t* on; how many of them the window "
        "sees depends on the server (--simulate models one)",
        f"time: {lasting(sum(plan.least_s for plan in plans))} to "
        f"{lasting(sum(plan.most_s for plan in plans))} in all: the window; the warm-up before it "
        f"takes as long as the server needs, {lasting(plans[0].warmup_timeout_s)} at most, and the "
        f"drain up to {lasting(plans[0].grace_s)}",
        *(f"{agents([plan.concurrency])}: {plan.wrapping}" for plan in wrapped),
    ]
    return Section("Levels", heads=heads, rows=rows, notes=notes)


def _totals(plans: Sequence[LevelPlan]) -> list[str]:
    return [
        f"{sum(plan.primers + plan.warmup_requests for plan in plans):,}",
        f"{sum(plan.first_requests for plan in plans):,}",
        rate(sum(plan.first_input_tokens for plan in plans)),
        rate(sum(plan.first_output_tokens for plan in plans)),
        lasting(sum(plan.least_s for plan in plans)),
    ]


def lane_lines(level: LevelPlan) -> list[str]:
    """Return a level's plan, lane by lane, in lines of at most 100 columns."""
    lines = [f"{agents([Measurement(level.concurrency, level.start)])}: plan {level.fingerprint}"]
    if level.primers:
        lines.append(
            f"  {counted(level.primers, 'primer')} (each conversation's last request before t*), "
            f"{counted(level.primer_tokens, 'token')} in"
        )
    for lane in level.lanes:
        lines.append(
            f"  lane {lane.lane:>4}  {lane.session_id[:32]:<32}  t* {lane.t_star_s:>11,.1f} s"
        )
        lines += [_turn_line("primer", *primer) for primer in lane.primers]
        lines += [_turn_line("from", *first) for first in lane.first]
    return lines


def _turn_line(what: str, conversation: str, turn: int, tokens: int) -> str:
    return f"      {what:<6} {conversation[:40]:<40} turn {turn:>4}, {tokens:>9,} tokens in"


# --- before a sweep ------------------------------------------------------------------------------

_SEARCHED_FIRST = 5
"""Levels that a search measures of its first start, and 2 or 3 of each further one: three starts
took 10.09 in the mean of 200 searches (benchmarks/results/capacity.json)."""

ONE_START_AHEAD = "1 start has no interval, so compare will name no winner (--starts 3)"

_NAMED = 4
"""How many sessions of a family are named."""


def corpus_lines(corpus: Corpus, selection: Selection, scenario: Scenario) -> list[str]:
    """Return what is played under which rules; nothing that was dropped goes unsaid."""
    played = len(selection.sessions)
    requests = sum(len(session.requests()) for session in selection.sessions)
    changed = f", overridden: {', '.join(scenario.overridden)}" if scenario.overridden else ""
    return [
        f"corpus {corpus.name} ({corpus.fingerprint}): {played} of "
        f"{counted(len(corpus.sessions), 'session')}, {counted(requests, 'request')}",
        *(f"  skipped {name}: {reason}" for name, reason in corpus.skipped),
        *(
            f"  left out {counted(out.sessions, 'session')}, {counted(out.requests, 'request')}: "
            f"{out.reason}"
            for out in selection.left_out
        ),
        *([f"warning: {much}"] if (much := _too_long(corpus, selection)) else ()),
        *family_lines(duplicate_families(selection.sources)),
        f"scenario {scenario.name} ({scenario.fingerprint}){changed}",
    ]


def _too_long(corpus: Corpus, selection: Selection) -> str | None:
    recorded = sum(len(session.requests()) for session in corpus.sessions)
    return too_long(selection.requests_too_long, recorded)


def family_lines(families: Sequence[Sequence[str]]) -> list[str]:
    """Return which sessions that are played repeat one another, by family."""
    return [
        f"  near-duplicates, all played (--keep-one-of-duplicates: the first alone): "
        f"{', '.join(family[:_NAMED])}"
        + (f" and {len(family) - _NAMED} more" if len(family) > _NAMED else "")
        for family in families
    ]


def wrapping(plan: Plan) -> str | None:
    """Return that sessions repeat across lanes, where they do."""
    played = len(plan.library.selection.sessions)
    if plan.concurrency <= played:
        return None
    return f"{counted(played, 'session')} over {counted(plan.concurrency, 'lane')}"


def sweep_lines(
    corpus: Corpus,
    selection: Selection,
    scenario: Scenario,
    plans: Sequence[Plan],
    out: Path,
    servers: int = 1,
    searched_starts: int | None = None,
) -> list[str]:
    """Return what is said before a sweep of these ``plans`` on so many servers, wrapped sessions
    included. Of a search for the capacity over ``searched_starts`` they are its first.
    """
    return [
        *corpus_lines(corpus, selection, scenario),
        *(line for plan in plans for line in _plan_lines(plan, servers)),
        *time_lines(plans, searched_starts),
        f"results in {out}",
    ]


def resumption_lines(
    planned: Sequence[Measurement],
    begun: Sequence[Measurement],
    kept: Sequence[Measurement],
    due: Sequence[Measurement],
) -> list[str]:
    """Return what becomes of each level when a run goes on: of those ``planned`` before, some of
    them ``begun`` and not completed, and of those ``due`` now.
    """
    other = [level for level in planned if level not in (*kept, *due)]
    fates = (
        (kept, "complete, kept with its plan"),
        ([level for level in due if level in begun],
         "begun before, measured anew; the unfinished attempt goes to unfinished/"),
        ([level for level in due if level not in (*planned, *begun)], "added to the run"),
        ([level for level in other if level in begun],
         "interrupted before, not asked for now: stays as it is, and --resume without "
         "--concurrency measures it anew"),
        ([level for level in other if level not in begun],
         "not asked for now; --resume without --concurrency measures it"),
    )  # fmt: skip
    return [f"  {agents([level])}: {fate}" for levels, fate in fates for level in levels]


def time_lines(plans: Sequence[Plan], searched_starts: int | None = None) -> list[str]:
    """Return how long the levels take, and that one start names no winner."""
    if not plans:
        return []
    rules, levels = plans[0].scenario, len(plans)
    starts, about = searched_starts or max(plan.start for plan in plans), ""
    if searched_starts is not None:
        levels, about = _SEARCHED_FIRST + 5 * (starts - 1) // 2, "a search: about "
    window = f"{about}{counted(levels, 'window')} of {lasting(rules.window_s)}"
    several = f", {lasting(levels * rules.window_s)} in all" if levels > 1 else ""
    return [
        f"{window}{several}; before each a warm-up, which takes as long as the server needs",
        *([ONE_START_AHEAD] if starts == 1 else ()),
    ]


def _plan_lines(plan: Plan, servers: int) -> list[str]:
    named = f"  {agents([Measurement(plan.concurrency, plan.start)])}: plan {plan.fingerprint}"
    share = _uneven_share(plan.concurrency, servers)
    lines = [", ".join(filter(None, (named, wrapping(plan))))]
    return lines if share is None else [*lines, f"    {share}"]


def _uneven_share(level: int, servers: int) -> str | None:
    """Return how many sessions servers play at a time where they do not divide evenly."""
    most, over = divmod(level, servers)
    if not over:
        return None
    others = "the other" if servers - over == 1 else "the others"
    return (
        f"{over} of {servers} servers with {counted(most + 1, 'session')} at a time, {others} with "
        f"{most}"
    )
