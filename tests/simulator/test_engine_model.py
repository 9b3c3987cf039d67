"""Steps, their lengths, and what comes of them."""

from dataclasses import replace

import numpy as np
import pytest

from agentx_replay.errors import UsageError
from agentx_replay.simulator.engine import Engine, EngineModel, Sequence, SequenceState

NO_BLOCKS = np.empty(0, np.uint64)


def blocks(count: int, first: int = 0) -> "np.typing.NDArray[np.uint64]":
    return np.arange(first, first + count, dtype=np.uint64)


def run_until_idle(engine: Engine) -> dict[Sequence, list[int]]:
    """Return the token times of every sequence that finished, in ns."""
    times = {}
    while engine.next_step_end_ns is not None:
        for sequence in engine.complete_step().finished:
            times[sequence] = engine.token_times_ns(sequence).tolist()
    return times


FLAT = EngineModel(
    step_base_ms=1, per_sequence_ms=0, per_context_token_ms=0, per_prefill_token_ms=0
)
"""Every step takes 1 ms."""


def test_a_step_takes_what_its_batch_costs() -> None:
    # 6 + 0.05·2 + 2e-6·1000 + 0.03·100 = 6 + 0.1 + 0.002 + 3 ms
    assert EngineModel().step_ns(2, 1000, 100) == 9_102_000


SCHEDULES: dict[str, tuple[EngineModel, list[tuple[int, int, int]], list[list[int]]]] = {
    # prefill: 6 + 0.05 + 0.03·10 = 6.35 ms
    # decode: 6 + 0.05 + 2e-6·11 = 6.050022 ms, then one token of context more: 6.050024 ms
    "one alone": (EngineModel(), [(1_000, 10, 3)], [[6_351_000, 12_401_022, 18_451_046]]),
    # chunks of 100, 100, 50: 6.05 + 3 = 9.05; + 2e-6·100 = 9.0502; 6.05 + 1.5 + 2e-6·200 = 7.5504
    "a prompt over the budget": (
        EngineModel(prefill_budget_tokens=100), [(0, 250, 1)], [[9_050_000 + 9_050_200 + 7_550_400]]
    ),
    # step 1: 100 of the first; step 2: its 50, the second's 30, 20 of the third; step 3: 20
    "a budget shared first come first served": (
        replace(FLAT, prefill_budget_tokens=100),
        [(0, 150, 1), (0, 30, 1), (0, 40, 1)],
        [[2_000_000], [2_000_000], [3_000_000]],
    ),
    "work that comes during a step": (
        FLAT, [(0, 10, 2), (500_000, 10, 1)], [[1_000_000, 2_000_000], [2_000_000]]
    ),
    "no more run than may": (
        replace(FLAT, max_running=1),
        [(0, 10, 2), (0, 10, 1)],
        [[1_000_000, 2_000_000], [3_000_000]],
    ),
    # 4 blocks of 64. The first takes ceil((64 + 2) / 64) = 2; the second needs 3.
    "room for all its output": (
        replace(FLAT, cache_blocks=4), [(0, 64, 2), (0, 64, 65)],
        [[1_000_000, 2_000_000], [n * 1_000_000 for n in range(3, 68)]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "submitted", "times_ns"), SCHEDULES.values(), ids=SCHEDULES)
def test_when_tokens_come(
    model: EngineModel, submitted: list[tuple[int, int, int]], times_ns: list[list[int]]
) -> None:
    """Requests are (submitted at, prompt tokens, output tokens)."""
    engine = Engine(model)
    sequences = [engine.submit(at, NO_BLOCKS, prompt, most) for at, prompt, most in submitted]
    found = run_until_idle(engine)
    assert [found[sequence] for sequence in sequences] == times_ns
    assert {sequence.state for sequence in sequences} == {SequenceState.FINISHED}
    assert engine.running == 0


@pytest.mark.parametrize(
    ("prompt_tokens", "cached", "step_ns"),
    [
        (130, 128, 6_110_256),  # 2 tokens to prefill, 128 of context: 6 + 0.05 + 2e-6·128 + 0.03·2
        (128, 64, 7_970_128),  # at least one token is computed: 6.05 + 2e-6·64 + 0.03·64
    ],
)
def test_what_is_cached_is_not_prefilled_again(
    prompt_tokens: int, cached: int, step_ns: int
) -> None:
    engine = Engine(EngineModel())
    engine.submit(0, blocks(2), prompt_tokens, 1)
    run_until_idle(engine)
    assert engine.submit(0, blocks(2), prompt_tokens, 1).cached_tokens == cached
    assert engine.next_step_end_ns == step_ns


def test_a_single_token_comes_with_the_prefill() -> None:
    engine = Engine(FLAT)
    sequence = engine.submit(0, NO_BLOCKS, 10, 1)
    outcome = engine.complete_step()
    assert outcome == (1_000_000, [sequence], [sequence])
    assert engine.next_step_end_ns is None


def test_an_idle_engine_starts_a_step_at_once() -> None:
    engine = Engine(FLAT)
    engine.submit(0, NO_BLOCKS, 10, 1)
    run_until_idle(engine)
    engine.submit(7_300_000, NO_BLOCKS, 10, 1)
    assert engine.next_step_end_ns == 8_300_000


def test_a_driver_that_is_late_may_start_the_next_step_late() -> None:
    engine = Engine(FLAT)
    engine.submit(0, NO_BLOCKS, 10, 3)
    engine.complete_step(next_start_ns=5_000_000)
    assert engine.next_step_end_ns == 6_000_000


def test_several_tokens_a_step_after_the_first() -> None:
    engine = Engine(EngineModel(tokens_per_step=3))
    sequence = engine.submit(0, NO_BLOCKS, 10, 6)
    while not engine.complete_step().finished:
        pass
    assert engine.token_counts(sequence).tolist() == [1, 3, 2]
    assert len(engine.token_times_ns(sequence)) == 3


def test_a_prompt_is_found_by_the_next_as_far_as_it_is_computed() -> None:
    engine = Engine(EngineModel(prefill_budget_tokens=128))
    engine.submit(0, blocks(4), 256, 1)
    late = engine.submit(0, blocks(4), 257, 1)
    engine.complete_step()  # the first has 128 left, the whole budget
    assert late.cached_tokens is None
    engine.complete_step()
    assert late.cached_tokens == 256


def test_a_cancelled_sequence_leaves_the_batch_and_what_it_computed() -> None:
    engine = Engine(EngineModel())
    gone = engine.submit(0, blocks(2), 130, 100)
    engine.complete_step()
    engine.complete_step()
    stays = engine.submit(0, blocks(2), 130, 2)
    engine.cancel(gone)
    engine.cancel(gone)
    assert gone.state is SequenceState.CANCELLED
    assert len(engine.token_times_ns(gone)) == 2
    assert list(run_until_idle(engine)) == [stays]
    assert stays.cached_tokens == 128
    assert engine.cache.reserved_blocks == 0


def test_a_sequence_cancelled_while_waiting_or_in_prefill_yields_nothing() -> None:
    engine = Engine(EngineModel(max_running=1))
    prefilling = engine.submit(0, NO_BLOCKS, 10, 1)
    waiting = engine.submit(0, NO_BLOCKS, 10, 1)
    stays = engine.submit(0, NO_BLOCKS, 10, 1)
    engine.cancel(waiting)
    engine.cancel(prefilling)
    assert list(run_until_idle(engine)) == [stays]
    for gone in (prefilling, waiting):
        assert engine.token_times_ns(gone).tolist() == []
        assert engine.token_counts(gone).tolist() == []


def test_a_cancelled_sequence_no_longer_costs_context() -> None:
    engine = Engine(EngineModel())
    gone = engine.submit(0, NO_BLOCKS, 1_000_000, 100)
    while gone.state is not SequenceState.DECODE:
        engine.complete_step()
    engine.submit(0, NO_BLOCKS, 10, 2)
    engine.cancel(gone)
    engine.complete_step()  # the step that had begun with it
    start_ns = engine.next_step_end_ns
    engine.complete_step()
    assert start_ns is not None
    assert engine.next_step_end_ns is not None
    # one decode of 11 tokens of context: 6 + 0.05 + 2e-6·11
    assert engine.next_step_end_ns - start_ns == 6_050_022


def test_old_steps_are_forgotten_and_token_times_stay_right() -> None:
    engine = Engine(FLAT)
    engine.submit(0, NO_BLOCKS, 10, 140_000)
    while not engine.complete_step().finished:
        pass
    last = engine.submit(140_000_000_000, NO_BLOCKS, 10, 3)
    assert list(run_until_idle(engine).values()) == [
        [140_001_000_000, 140_002_000_000, 140_003_000_000]
    ]
    assert last.first_step == 140_000
    assert engine.steps == 140_003


def test_steps_that_a_live_sequence_yields_tokens_in_are_kept() -> None:
    engine = Engine(FLAT)
    engine.submit(0, NO_BLOCKS, 10, 50_000)
    long = engine.submit(0, NO_BLOCKS, 10, 140_000)
    while long.state is not SequenceState.FINISHED:
        engine.complete_step()
    times_ns = engine.token_times_ns(long)
    # prefilled in the second step, the first having begun without it: tokens at 2 … 140,001 ms
    assert len(times_ns) == 140_000
    assert (times_ns[0], times_ns[-1]) == (2_000_000, 140_001_000_000)


def test_a_step_that_is_not_in_progress_cannot_end() -> None:
    with pytest.raises(RuntimeError, match="no step"):
        Engine(FLAT).complete_step()


def test_what_was_generated_is_cached_when_it_has_ended_and_not_before() -> None:
    # 100 + 93 - 1 = 192 tokens are computed: one block of the prompt's, two of the output's.
    engine = Engine(FLAT)
    engine.submit(0, blocks(1), 100, 93, blocks(2, first=1))
    engine.complete_step()
    early = engine.submit(0, blocks(3), 193, 1)
    run_until_idle(engine)
    late = engine.submit(0, blocks(3), 193, 1)
    run_until_idle(engine)
    assert (early.cached_tokens, late.cached_tokens) == (64, 192)


def test_what_a_cut_request_had_generated_is_not_cached() -> None:
    engine = Engine(FLAT)
    cut = engine.submit(0, blocks(1), 100, 93, blocks(2, first=1))
    engine.complete_step()
    engine.cancel(cut)
    again = engine.submit(0, blocks(3), 193, 1)
    run_until_idle(engine)
    assert again.cached_tokens == 64


def test_the_context_is_the_models_or_the_whole_cache() -> None:
    assert EngineModel(max_model_len=1000).context_limit_tokens == 1000
    assert EngineModel(max_model_len=1000, cache_blocks=2).context_limit_tokens == 128
    assert EngineModel(max_model_len=100).overflow(60, 40) is None
    refusal = EngineModel(max_model_len=100).overflow(61, 40)
    assert refusal is not None
    assert "context length is 100" in refusal


@pytest.mark.parametrize(
    "wrong", [{"cache_blocks": 0}, {"per_sequence_ms": -1.0}, {"step_base_ms": 0.0}]
)
def test_a_model_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        EngineModel(**wrong)  # type: ignore[arg-type]
