"""Which sessions a run plays, and what it leaves out."""

import re

import numpy as np
import pytest
from refusals import refuses
from stream_graphs import request

from agentx_replay.plan.selection import Selection, context_tokens, select_sessions
from agentx_replay.traces.model import BlockTrie, Corpus, Entry, Session, Subagent

NO_BLOCKS = BlockTrie(np.empty(0, np.int32), np.empty(0, np.int32))


def session(name: str, *input_tokens: int) -> Session:
    entries: tuple[Entry, ...] = tuple(
        request(i, float(i), 1.0, input_tokens=tokens, output_tokens=50)
        for i, tokens in enumerate(input_tokens)
    )
    return Session(name, 64, 0, 0, entries, NO_BLOCKS)


def corpus(*sessions: Session) -> Corpus:
    return Corpus("tiny", sessions, "0" * 16)


@pytest.mark.parametrize(("output_tokens", "needs"), [(50, 150), (1, 101), (0, 101)])
def test_a_request_needs_its_prompt_and_at_least_one_token(output_tokens: int, needs: int) -> None:
    of = request(0, 0.0, 1.0, input_tokens=100, output_tokens=output_tokens)
    assert context_tokens(of) == needs


def left_out(chosen: Selection) -> list[tuple[str, list[int], int, int]]:
    """What was left out: the cause, the figures of its reason, how many sessions and requests."""
    figures = [[int(n) for n in re.findall(r"\d+", each.reason)] for each in chosen.left_out]
    found = zip(chosen.left_out, figures, strict=True)
    return [(each.cause, of, each.sessions, each.requests) for each, of in found]


def test_a_session_whose_peak_does_not_fit_is_left_out_and_counted() -> None:
    # 150 + 50 = 200 fits exactly; 151 + 50 does not.
    chosen = select_sessions(
        corpus(session("a", 100, 150), session("b", 100, 151, 10)), max_context=200
    )
    assert [s.id for s in chosen.sessions] == ["a"]
    assert left_out(chosen) == [("too_large", [200], 1, 3)]


def test_the_request_policy_leaves_out_single_requests() -> None:
    chosen = select_sessions(
        corpus(session("a", 100, 151, 10), session("b", 500)), max_context=200, policy="request"
    )
    assert [len(s.requests()) for s in chosen.sessions] == [2]
    assert [len(s.requests()) for s in chosen.sources] == [3]
    assert left_out(chosen) == [("too_large", [200], 1, 1), ("request", [200], 1, 1)]


def test_the_request_policy_reaches_into_subagents() -> None:
    inner = (request(1, 1.0, 1.0, input_tokens=10), request(2, 2.0, 1.0, input_tokens=900))
    agent = Subagent("a1", "Explore", "completed", 1.0, False, 1.0, 2.0, 0, 0, inner)
    entries: tuple[Entry, ...] = (request(0, 0.0, 1.0), agent)
    of = Session("a", 64, 0, 0, entries, NO_BLOCKS)
    chosen = select_sessions(corpus(of), max_context=200, policy="request")
    assert [r.index for r in chosen.sessions[0].requests()] == [0, 1]


def test_the_first_so_many_eligible_sessions_are_taken() -> None:
    chosen = select_sessions(
        corpus(session("big", 999), session("a", 1), session("b", 1), session("c", 1, 2)),
        max_context=200,
        max_sessions=2,
    )
    assert [s.id for s in chosen.sessions] == ["a", "b"]
    assert left_out(chosen) == [("too_large", [200], 1, 1), ("scenario", [2], 1, 2)]


def test_of_near_duplicates_the_first_that_fits_is_kept_where_that_is_asked_for() -> None:
    repeated = (100, 110, 120, 130)
    of = corpus(
        session("big", *repeated, 900),
        session("a", *repeated),
        session("other", 1, 2, 3),
        session("again", *repeated, 140),
    )
    assert len(select_sessions(of, max_context=200).sessions) == 3
    chosen = select_sessions(of, max_context=200, keep_one_of_duplicates=True, max_sessions=1)
    assert [s.id for s in chosen.sessions] == [s.id for s in chosen.sources] == ["a"]
    assert left_out(chosen) == [
        ("too_large", [200], 1, 5), ("duplicate", [], 1, 5), ("scenario", [1], 1, 3),
    ]  # fmt: skip


def test_a_session_of_subagents_alone_cannot_be_played() -> None:
    agent = Subagent("a1", "Explore", "completed", 1.0, False, 1.0, 2.0, 0, 0, (request(0, 1, 1),))
    alone = Session("alone", 64, 0, 0, (agent,), NO_BLOCKS)
    chosen = select_sessions(corpus(alone, session("a", 10**6)), max_context=None)
    assert left_out(chosen) == [("session", [], 1, 1)]
    with refuses("corpus-of-subagents-alone"):
        select_sessions(corpus(alone), max_context=None)


def test_a_context_too_small_for_every_session_says_what_the_smallest_needs() -> None:
    with refuses("no-session-fits", "150") as refused:
        select_sessions(corpus(session("a", 100, 7), session("b", 900)), max_context=100)
    assert refused.value.exit_code == 3
