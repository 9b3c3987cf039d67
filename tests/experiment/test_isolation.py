"""Who shares cached text with whom: proven on what an engine's warm cache gives back."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from small_corpus import Played, Run, corpus, planned, replay_all, request, session
from virtual_replay import SCENARIO

from agentx_replay.plan.plan import Plan

SHORT = replace(SCENARIO, window_s=30.0)
LEAD = 100  # the first prompt's blocks: 0 … 99


def of_two(directory: Path, *, lanes: int = 2) -> Plan:
    """Two sessions with tools and system prompts of the same lengths, 128 + 64 tokens."""
    return planned(
        corpus(
            directory,
            *(
                session(
                    name,
                    request(0, range(LEAD)),
                    request(3, range(LEAD + 10)),
                    tools=128,
                    system=64,
                )
                for name in ("one", "two")
            ),
        ),
        SHORT,
        lanes,
    )


def first_cached(played: Played) -> dict[tuple[int, int], int | None]:
    """Cached tokens of the first request of each play, by (lane, play number)."""
    return {row[:2]: row[4] for row in played.cached() if row[3] == 0}


def test_the_same_salt_gives_the_same_text_and_another_salt_nothing_in_common(
    tmp_path: Path,
) -> None:
    plan = of_two(tmp_path)
    first, other, again = replay_all(Run(plan, "salt"), Run(plan, "other"), Run(plan, "salt"))
    assert other.cached() == first.cached()
    # 100 blocks of 64, of which an engine computes at least one token again: 99 blocks.
    assert first_cached(again)[0, 0] == 99 * 64
    assert first_cached(again)[1, 0] == 99 * 64


def test_two_levels_of_a_sweep_share_nothing(tmp_path: Path) -> None:
    one, two = of_two(tmp_path, lanes=1), of_two(tmp_path, lanes=2)
    alone, _ = replay_all(Run(two, "salt"), Run(two, "other"))
    _, after = replay_all(Run(one, "salt"), Run(two, "salt"))
    assert after.cached() == alone.cached()


def test_a_level_started_again_shares_nothing_with_its_first_attempt(tmp_path: Path) -> None:
    plan = of_two(tmp_path)
    first, second = replay_all(Run(plan, "salt"), Run(plan, "salt", attempt=1))
    assert second.cached() == first.cached()


def test_two_plays_of_one_session_share_its_system_prompt_alone(tmp_path: Path) -> None:
    (played,) = replay_all(Run(of_two(tmp_path, lanes=4), "salt"))
    cached = first_cached(played)
    # Its 192 tokens, 3 blocks, once they are computed: plays that start together find none yet.
    assert cached[0, 1] == 192
    assert set(cached.values()) == {0, 192}


def test_a_play_finds_what_it_sent_before(tmp_path: Path) -> None:
    (played,) = replay_all(Run(of_two(tmp_path), "salt"))
    second = {row[4] for row in played.cached() if row[3] == 1}
    assert second == {LEAD * 64}


@pytest.mark.parametrize(("shared", "tokens"), [("session", 0), ("corpus", 192)])
def test_sessions_share_a_system_prompt_only_where_the_scenario_says_so(
    tmp_path: Path, shared: str, tokens: int
) -> None:
    plan = planned(
        corpus(
            tmp_path,
            session("one", request(0, range(LEAD)), tools=128, system=64),
            session("two", request(0, range(LEAD)), tools=128, system=64),
        ),
        replace(SHORT, window_s=0.5),
        1,
    )
    (played,) = replay_all(Run(plan, "salt", shared_prefix=shared))  # type: ignore[arg-type]
    # One lane plays one, then two.
    assert first_cached(played)[0, 0] == 0
    assert first_cached(played)[0, 1] == tokens


def test_the_same_salt_gives_the_same_bytes(tmp_path: Path) -> None:
    plan = of_two(tmp_path)

    def digests(salt: str) -> list[tuple[str, str]]:
        (played,) = replay_all(Run(plan, salt))
        return sorted(
            (d.request_id, hashlib.sha256(d.prompt.messages_json()).hexdigest())
            for d, _ in played.log.requests
        )

    assert digests("salt") == digests("salt")
    assert not set(digests("salt")) & set(digests("other"))


def test_every_prompt_declares_what_it_shares(tmp_path: Path) -> None:
    (played,) = replay_all(Run(of_two(tmp_path), "salt"))
    assert {d.prompt.declared_blocks for d, _ in played.log.requests} == {3}
    own = {(d.play_id, int(d.prompt.block_ids[3])) for d, _ in played.log.requests}
    assert len(own) == len({play for play, _ in own}) == len({block for _, block in own})
