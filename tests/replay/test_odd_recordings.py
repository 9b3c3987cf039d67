"""What a replay does with recordings that are odd but legal: each has one defined behaviour."""

from dataclasses import replace
from pathlib import Path

from small_corpus import Played, Run, corpus, planned, replay_all, request, session, subagent
from virtual_replay import SCENARIO, S

from agentx_replay.replay.ports import Status
from agentx_replay.scenario import Scenario
from agentx_replay.simulator.engine import EngineModel

ONE_SECOND = EngineModel(
    step_base_ms=1000.0,
    per_sequence_ms=0.0,
    per_context_token_ms=0.0,
    per_prefill_token_ms=0.0,
    prefill_budget_tokens=1_000_000,
)
"""A prefill takes one second, and so does every further token."""


def played(
    directory: Path, *entries: object, lanes: int = 1, scenario: Scenario = SCENARIO
) -> Played:
    """Replay one session against ``ONE_SECOND``."""
    recordings = corpus(directory, session("x", *entries))  # type: ignore[arg-type]
    (found,) = replay_all(Run(planned(recordings, scenario, lanes), "salt"), model=ONE_SECOND)
    return found


def sent(played: Played, play_number: int = 0) -> list[tuple[float, int, int]]:
    """(second, conversation, turn) of the requests of a play of lane 0."""
    return sorted(
        (r.send_ns / S, d.conversation, d.turn)
        for d, r in played.log.requests
        if (d.lane, d.play_number) == (0, play_number)
    )


def test_a_request_recorded_before_its_predecessor_ended_is_another_agents(
    tmp_path: Path,
) -> None:
    # Recorded at 2 while the first took until 5. It goes out 2 s after the first does, whatever
    # becomes of that one. A turn has begun, so it takes the next, from 3 to 4; the third, which
    # continues it, follows after 4 − (2 + 1) = 1 s of gap.
    found = played(
        tmp_path,
        request(0, [1], out=9, api_time=5.0),
        request(2, [1, 2], out=1),
        request(4, [1, 2, 3], out=1),
    )
    assert sent(found) == [(0.0, 0, 0), (2.0, 1, 0), (5.0, 1, 1)]


def test_a_negative_gap_is_none(tmp_path: Path) -> None:
    # Listed out of order of time: 3 s after the start of one that is recorded to start at 9.
    found = played(
        tmp_path,
        request(9, [1], out=2),
        request(3, [1, 2], out=1),
    )
    assert sent(found) == [(0.0, 0, 0), (2.0, 0, 1)]


def test_an_output_of_no_token_asks_for_one(tmp_path: Path) -> None:
    found = played(tmp_path, request(0, [1], out=0))
    first, came = found.log.requests[0]
    assert (first.recorded_output_tokens, first.max_tokens) == (0, 1)
    assert (came.status, came.completion_tokens) == (Status.OK, 1)


def test_an_identical_prompt_is_sent_again_whole(tmp_path: Path) -> None:
    found = played(tmp_path, *(request(2 * i, [1, 2, 3], out=1, in_=200) for i in range(3)))
    rows = [(d.prompt.tokens, r.cached_tokens) for d, r in found.log.requests[:3]]
    # 200 tokens: three whole blocks and 8 tokens that are computed each time.
    assert rows == [(200, 0), (200, 192), (200, 192)]
    texts = {d.prompt.messages_json() for d, _ in found.log.requests[:3]}
    assert len(texts) == 1


def test_a_subagent_without_requests_holds_nothing_up(tmp_path: Path) -> None:
    found = played(
        tmp_path,
        request(0, [1], out=1),
        subagent(2, [], duration_ms=60_000),
        request(3, [1, 2], out=1),
    )
    assert sent(found) == [(0.0, 0, 0), (3.0, 0, 1)]


def test_block_ids_out_of_order_share_by_place_in_the_prompt(tmp_path: Path) -> None:
    found = played(
        tmp_path,
        request(0, [900, 7, 41], out=1),
        request(2, [900, 7, 3, 2, 1], out=1),
    )
    first_play = [(d, r) for d, r in found.log.requests if d.play_number == 0]
    # The second prompt keeps 900, 7.
    assert [r.cached_tokens for _, r in first_play] == [0, 128]


def test_what_would_wait_for_ever_waits_for_nothing(tmp_path: Path) -> None:
    # The subagent is recorded to end at 1,000 s, after every main request: none waits for it.
    found = played(
        tmp_path,
        request(0, [1], out=1),
        subagent(1, [request(1, [9], out=4)], duration_ms=999_000),
        request(3, [1, 2], out=1),
    )
    # Main: 0–1, then 3 − 1 = 2 s of gap. The subagent, from 1 to 5, holds the slot.
    assert sent(found) == [(0.0, 0, 0), (1.0, 1, 0), (3.0, 0, 1)]
    assert sent(found, play_number=1)[0] == (5.0, 0, 0)


def test_a_child_that_fails_is_waited_for_no_longer(tmp_path: Path) -> None:
    # Its one request never fits the engine: an overflow ends the conversation, and the join opens.
    recordings = corpus(
        tmp_path,
        session(
            "x",
            request(0, [1], out=1),
            subagent(1, [request(1, [9], in_=100_000, out=1)], duration_ms=1000),
            request(3, [1, 2], out=1),
        ),
    )
    engine = replace(ONE_SECOND, max_model_len=10_000)
    (found,) = replay_all(Run(planned(recordings, SCENARIO, 1), "salt"), model=engine)
    assert sent(found) == [(0.0, 0, 0), (1.0, 1, 0), (3.0, 0, 1)]


def test_a_session_of_one_request_is_played_from_it_and_followed_by_the_next(
    tmp_path: Path,
) -> None:
    quarter = replace(SCENARIO, start_fraction=(0.25, 0.75))
    found = played(tmp_path, request(7, [1], out=3), scenario=quarter)
    # t* is its start, so nothing is primed; three seconds each, one play after the other.
    assert {d.phase for d, _ in found.log.requests} == {"window"}
    assert [sent(found, play_number)[0] for play_number in range(3)] == [
        (0.0, 0, 0),
        (3.0, 0, 0),
        (6.0, 0, 0),
    ]


def test_more_lanes_than_sessions_play_a_session_side_by_side_with_nothing_shared(
    tmp_path: Path,
) -> None:
    found = played(tmp_path, request(0, [1, 2], out=1), request(90, [1, 2, 3], out=1), lanes=3)
    firsts = [(d.lane, r.cached_tokens) for d, r in found.log.requests if d.turn == 0]
    assert firsts[:3] == [(0, 0), (1, 0), (2, 0)]


def test_a_window_shorter_than_one_request_cuts_it_after_the_grace(tmp_path: Path) -> None:
    brief = replace(SCENARIO, window_s=2.0, grace_s=3.0)
    found = played(tmp_path, request(0, [1], out=60), scenario=brief)
    ((_, came),) = found.log.requests
    # Tokens at 1, 2, 3 and 4 s, and one at the very instant of the cut or not.
    assert came.status is Status.CUT
    assert came.end_ns == 5 * S
    assert len(came.arrival_ns) >= 4
    assert found.result.failure is None
