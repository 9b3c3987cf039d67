"""The engine as an endpoint, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import small_corpus
from client_cases import dispatch as any_dispatch

from agentx_replay.prompts.prompt import Prompt
from agentx_replay.replay.ports import Dispatch, ErrorCategory, Response, Status
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.scenario import load_scenario
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint, regrouped

_PLAYED_NS = 30_000_000_000


def no_text() -> bytes:
    raise AssertionError("a replay in virtual time makes no text")


def dispatch(prompt_tokens: int, max_tokens: int, seed: int = 0) -> Dispatch:
    ids = np.random.default_rng(seed).integers(0, 1 << 63, prompt_tokens // 64, dtype=np.uint64)
    return replace(
        any_dispatch(), max_tokens=max_tokens, prompt=Prompt(prompt_tokens, 0, ids, no_text)
    )


def with_endpoint(
    use: Callable[[InProcessEndpoint], Awaitable[None]], model: EngineModel | None = None
) -> None:
    async def main() -> None:
        endpoint = InProcessEndpoint(virtual_clock(), model or EngineModel())
        await use(endpoint)
        await endpoint.close()

    run_virtual(main())


def test_a_response_is_stamped_with_the_ends_of_its_steps() -> None:
    async def use(endpoint: InProcessEndpoint) -> None:
        response = await endpoint.send(dispatch(130, 3))
        # prefill 6.05 + 0.03·130 = 9.95 ms; decodes 6.05 + 2e-6·131 and ·132
        assert response.arrival_ns.tolist() == [9_950_000, 16_000_262, 22_050_526]
        assert response.arrival_tokens is not None
        assert response.arrival_tokens.tolist() == [1, 1, 1]
        assert (response.status, response.http_status) == (Status.OK, 200)
        assert (response.send_ns, response.sent_ns, response.end_ns) == (0, 0, 22_050_526)
        assert response.first_byte_ns == 9_950_000
        assert (response.prompt_tokens, response.cached_tokens) == (130, 0)
        assert (response.completion_tokens, response.finish_reason) == (3, "length")
        again = await endpoint.send(dispatch(130, 1))
        assert again.send_ns == 22_050_526
        assert again.cached_tokens == 128

    with_endpoint(use)


def test_a_request_larger_than_the_context_overflows_at_once() -> None:
    async def use(endpoint: InProcessEndpoint) -> None:
        response = await endpoint.send(dispatch(90, 11))
        assert (response.status, response.http_status) == (Status.OVERFLOW, 400)
        assert response.error_category is ErrorCategory.CONTEXT_OVERFLOW
        assert "maximum context length" in (response.error_text or "")
        assert response.end_ns == 0

    with_endpoint(use, EngineModel(max_model_len=100))


def test_a_cut_returns_what_arrived() -> None:
    async def use(endpoint: InProcessEndpoint) -> None:
        began = asyncio.ensure_future(endpoint.send(dispatch(130, 100)))
        await asyncio.sleep(0.020)
        queued = asyncio.ensure_future(endpoint.send(dispatch(130, 100, seed=1)))
        await asyncio.sleep(0)
        endpoint.cut()
        response, nothing = await began, await queued
        assert (response.status, response.end_ns) == (Status.CUT, 20_000_000)
        assert response.arrival_ns.tolist() == [9_950_000, 16_000_262]
        assert response.completion_tokens is None
        assert (nothing.status, nothing.http_status) == (Status.CUT, None)
        assert len(nothing.arrival_ns) == 0
        assert endpoint.engine.running == endpoint.engine.waiting == 0
        endpoint.conversation_ended("s")
        assert (await endpoint.send(dispatch(10, 1))).status is Status.OK

    with_endpoint(use)


def test_a_caller_that_is_cancelled_takes_its_request_out_of_the_engine() -> None:
    async def use(endpoint: InProcessEndpoint) -> None:
        sending = asyncio.ensure_future(endpoint.send(dispatch(130, 100)))
        await asyncio.sleep(0.020)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert endpoint.engine.running == 0

    with_endpoint(use)


def test_a_caller_cancelled_in_the_same_instant_as_a_cut_is_cancelled() -> None:
    async def use(endpoint: InProcessEndpoint) -> None:
        sending = asyncio.ensure_future(endpoint.send(dispatch(130, 100)))
        await asyncio.sleep(0.020)
        sending.cancel()
        endpoint.cut()
        with pytest.raises(asyncio.CancelledError):
            await sending

    with_endpoint(use)


def closed_loop(lanes: int, model: EngineModel, turns: int = 10) -> list[Response]:
    """Play growing conversations, one a lane, for half a virtual minute without pauses.

    Lane ``i`` goes through ``turns`` turns of 20,000 tokens and 640 more a turn, 200 tokens of
    output each, over and over: its second round finds what the first left.
    """
    responses: list[Response] = []

    async def lane(endpoint: InProcessEndpoint, seed: int) -> None:
        turn = 0
        while virtual_clock().now_ns() < _PLAYED_NS:
            prompt_tokens = 20_000 + 640 * (turn % turns)
            responses.append(await endpoint.send(dispatch(prompt_tokens, 200, seed)))
            turn += 1

    async def main() -> None:
        endpoint = InProcessEndpoint(virtual_clock(), model)
        await asyncio.gather(*(lane(endpoint, seed) for seed in range(lanes)))

    run_virtual(main())
    return responses


def tokens_per_s(responses: list[Response]) -> float:
    tokens = sum((r.prompt_tokens or 0) + (r.completion_tokens or 0) for r in responses)
    return tokens / (max(r.end_ns for r in responses) / 1e9)


def p90_itl_ns(responses: list[Response]) -> float:
    itl = [(r.arrival_ns[-1] - r.arrival_ns[0]) / (len(r.arrival_ns) - 1) for r in responses]
    return float(np.percentile(itl, 90))


def hit_rate(responses: list[Response]) -> float:
    return sum(r.cached_tokens or 0 for r in responses) / sum(
        r.prompt_tokens or 0 for r in responses
    )


@cache
def of_lanes(lanes: int) -> list[Response]:
    return closed_loop(lanes, EngineModel())


def test_eight_lanes_deliver_over_three_times_what_one_does() -> None:
    assert tokens_per_s(of_lanes(8)) > 3 * tokens_per_s(of_lanes(1))


def test_p90_itl_never_falls_with_concurrency() -> None:
    itl = [p90_itl_ns(of_lanes(lanes)) for lanes in (1, 8, 24)]
    assert itl == sorted(itl)


def test_a_quarter_of_the_needed_capacity_loses_a_fifth_of_the_hits() -> None:
    # Eight lanes at their longest: (20,000 + 9·640 + 200) tokens = 406 blocks each
    needed = 8 * 406
    unlimited = hit_rate(closed_loop(8, EngineModel(cache_blocks=100 * needed)))
    quarter = hit_rate(closed_loop(8, EngineModel(cache_blocks=needed // 4)))
    assert quarter < 0.8 * unlimited


@pytest.mark.parametrize(
    ("block_tokens", "shared", "expected"),
    # Of 260 tokens the first so many blocks are shared: engine blocks of 64 tokens within them.
    [(1, 200, 3), (1, 63, 0), (3, 64, 3), (63, 2, 1), (100, 2, 3), (130, 1, 2)],
)
def test_prompts_of_other_blocks_share_the_engines_blocks_that_are_alike(
    block_tokens: int, shared: int, expected: int
) -> None:
    rng = np.random.default_rng(5)
    one, other = rng.integers(0, 1 << 63, (2, 260 // block_tokens), dtype=np.uint64)
    other[:shared] = one[:shared]
    found = [regrouped(ids, block_tokens, 64).tolist() for ids in (one, other)]
    alike = [mine == its for mine, its in zip(*found, strict=True)]
    assert alike == [place < expected for place in range(len(alike))]
    assert len(alike) == 260 // block_tokens * block_tokens // 64
    swapped = regrouped(one[::-1].copy(), block_tokens, 64).tolist()
    assert not set(swapped) & set(found[0])


@pytest.mark.parametrize("block_size", [1, 16, 63, 65, 1000, 65_536])
def test_a_corpus_of_any_block_size_is_replayed_and_cached(block_size: int, tmp_path: Path) -> None:
    """Prompts grow by 137 tokens; what a cache finds is whole blocks of the trace's and of 64."""
    requests = [
        small_corpus.request(t, range((300 + 137 * t) // block_size), in_=300 + 137 * t)
        for t in range(6)
    ]
    value = small_corpus.session("s", *requests) | {"block_size": block_size}
    of = small_corpus.corpus(tmp_path, value)
    scenario = load_scenario("quick").override(
        start_fraction=(0.0, 0.0), warmup_requests=0, window_s=8.0
    )
    plan = small_corpus.planned(of, scenario, 1)
    [played] = small_corpus.replay_all(small_corpus.Run(plan, "salt"))
    found = {turn: cached for _, play_number, _, turn, cached in played.cached() if not play_number}
    known = [(300 + 137 * (t - 1)) // block_size * block_size for t in range(1, 6)]
    assert [found[t] for t in range(1, 6)] == [tokens // 64 * 64 for tokens in known]
