"""A deterministic model of an inference engine: continuous batching with chunked prefill.

Time passes in steps. In a step every decoding sequence yields tokens and the prefill budget is
shared, first come first served; how long it takes is a linear function of the batch at its start.
Per step the work here does not grow with the number of sequences: counts and sums are kept, and a
sequence's token times are a slice of the steps' end times. What is generated fills reserved
blocks, and is found again by a later prompt if whoever drives the engine names what those hold.
The module has no clock, no loop and no network: whoever drives it says what time it is.
"""

import heapq
from array import array
from collections import deque
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentx_replay.errors import UsageError
from agentx_replay.simulator.prefix_cache import Ids, Lease, PrefixCache
from agentx_replay.units import NS_PER_MS

MOST = 1_000_000_000
"""No parameter of the model may be larger, nor be no number at all."""
_TRIM_STEPS = 1 << 17


@dataclass(frozen=True, slots=True)
class EngineModel:
    """What is modelled: the time of a step, and the engine's limits.

    step = ``step_base_ms`` + ``per_sequence_ms``·sequences + ``per_context_token_ms``·tokens in
    their contexts + ``per_prefill_token_ms``·tokens prefilled. A sequence yields one token at the
    end of the step that completes its prefill and ``tokens_per_step`` in each step after.
    """

    step_base_ms: float = 6.0
    per_sequence_ms: float = 0.05
    per_context_token_ms: float = 2e-6
    per_prefill_token_ms: float = 0.03
    prefill_budget_tokens: int = 8192
    block_tokens: int = 64
    cache_blocks: int = 262_144
    max_running: int = 256
    max_model_len: int = 1_048_576
    tokens_per_step: int = 1

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.type is int else 0
            if not least <= value <= MOST:
                raise UsageError(
                    "model-out-of-range",
                    f"the simulator's {each.name} is {value}",
                    f"give a value from {least} to {MOST:,}",
                )
        if self.step_base_ms == 0:
            raise UsageError(
                "model-without-step-time",
                "the simulator's step_base_ms is 0",
                "give a step some time",
            )

    @property
    def context_limit_tokens(self) -> int:
        """Longest prompt plus output that can ever run: the model's, or the whole cache."""
        return min(self.max_model_len, self.cache_blocks * self.block_tokens)

    def step_ns(self, sequences: int, context_tokens: int, prefill_tokens: int) -> int:
        """Return how long a step over such a batch takes, in ns."""
        return round(
            NS_PER_MS
            * (
                self.step_base_ms
                + self.per_sequence_ms * sequences
                + self.per_context_token_ms * context_tokens
                + self.per_prefill_token_ms * prefill_tokens
            )
        )

    def overflow(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """Return why a request can never run, in the words engines use, or None where it can."""
        limit = self.context_limit_tokens
        if prompt_tokens + max_tokens <= limit:
            return None
        return (
            f"This model's maximum context length is {limit} tokens, but the request holds "
            f"{prompt_tokens} input tokens and asks for {max_tokens} output tokens. "
            "Shorten the prompt or ask for fewer tokens."
        )


DEMO_ENGINE = EngineModel(step_base_ms=2.5, per_sequence_ms=1.0, per_prefill_token_ms=0.01)
"""What a run without a server measures: a small system, warm within seconds, whose speeds at 2, 12
and 32 agents of the bundled sessions lie around 150, 50 and 30 tok/s/user.
"""


def _no_ids() -> Ids:
    return np.empty(0, np.uint64)


class SequenceState(Enum):
    """Where a sequence is in its life."""

    WAITING = auto()
    PREFILL = auto()
    DECODE = auto()
    FINISHED = auto()
    CANCELLED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine. ``output_ids`` name the blocks after the prompt's.

    ``cached_tokens`` is None until it is admitted. ``first_step`` and ``last_step`` number the
    steps at whose ends its first and last tokens come (-1 before its prefill is complete).
    """

    prompt_tokens: int
    max_tokens: int
    block_ids: Ids
    output_ids: Ids = field(default_factory=_no_ids)
    cached_tokens: int | None = None
    computed_tokens: int = 0
    first_step: int = -1
    last_step: int = -1
    state: SequenceState = SequenceState.WAITING
    lease: Lease | None = None


class StepOutcome(NamedTuple):
    """What the step that ended at ``end_ns`` brought: sequences that yielded their first token,
    and their last."""

    end_ns: int
    started: list[Sequence]
    finished: list[Sequence]


class Engine:
    """The engine's state between two steps, and the step in progress.

    ``looked_up_tokens`` of the prompts admitted so far, ``found_tokens`` were in the prefix cache.
    """

    def __init__(self, model: EngineModel) -> None:
        self.model = model
        self.cache = PrefixCache(model.cache_blocks)
        self.next_step_end_ns: int | None = None
        self.looked_up_tokens = 0
        self.found_tokens = 0
        self._waiting: deque[Sequence] = deque()
        self._prefilling: list[Sequence] = []
        self._chunks: list[tuple[Sequence, int]] = []
        self._decoding: dict[Sequence, None] = {}
        self._decode_context_tokens = 0
        self._finishes: list[tuple[int, int, Sequence]] = []
        self._finish_filings = 0
        self._head_is_blocked = False
        self._step_ends_ns: array[int] = array("q")
        self._trimmed_steps = 0

    @property
    def steps(self) -> int:
        return self._trimmed_steps + len(self._step_ends_ns)

    @property
    def running(self) -> int:
        return len(self._prefilling) + len(self._decoding)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(
        self,
        now_ns: int,
        block_ids: Ids,
        prompt_tokens: int,
        max_tokens: int,
        output_ids: Ids | None = None,
    ) -> Sequence:
        """Queue a request; an idle engine starts a step at once.

        ``block_ids`` (uint64) name the contents of the prompt's whole blocks, in order;
        ``output_ids`` those of the next, which the output fills up but for its last token (which
        is never computed upon): they are in the cache when it has ended. Without, what is
        generated is found by nobody. The request must be one that ``EngineModel.overflow`` lets
        pass.
        """
        sequence = Sequence(
            prompt_tokens, max_tokens, block_ids, _no_ids() if output_ids is None else output_ids
        )
        self._waiting.append(sequence)
        if self.next_step_end_ns is None:
            self._start_step(now_ns)
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """Drop a sequence; what it computed stays cached. Harmless when it has ended already."""
        if sequence.state is SequenceState.WAITING:
            self._waiting.remove(sequence)
            self._head_is_blocked = False
        elif sequence.state is SequenceState.PREFILL:
            self._prefilling.remove(sequence)
            self._let_go(sequence)
        elif sequence.state is SequenceState.DECODE:
            self._leave_decode(sequence)
        else:
            return
        sequence.state = SequenceState.CANCELLED

    def complete_step(self, next_start_ns: int | None = None) -> StepOutcome:
        """End the step in progress and start the next, at ``next_start_ns`` or at once.

        Token times of a sequence that ended must be read before the next call: steps that no
        live sequence needs are forgotten.
        """
        end_ns = self.next_step_end_ns
        if end_ns is None:
            raise RuntimeError("no step is in progress")
        self._trim()
        step = self.steps
        self._step_ends_ns.append(end_ns)
        self._decode_context_tokens += self.model.tokens_per_step * len(self._decoding)
        outcome = StepOutcome(end_ns, self._advance_prefills(step), self._finish(step))
        self._start_step(end_ns if next_start_ns is None else next_start_ns)
        return outcome

    def token_times_ns(self, sequence: Sequence) -> NDArray[np.int64]:
        """Return when each event of the sequence came so far, int64, one entry a step."""
        if sequence.first_step < 0:
            return np.empty(0, np.int64)
        first = sequence.first_step - self._trimmed_steps
        after_last = min(sequence.last_step + 1, self.steps) - self._trimmed_steps
        return np.frombuffer(self._step_ends_ns[first:after_last], np.int64)

    def token_counts(self, sequence: Sequence) -> NDArray[np.int32]:
        """Return the tokens of each of those events, int32: one, then ``tokens_per_step`` each,
        what is left in the last."""
        if sequence.first_step < 0:
            return np.empty(0, np.int32)
        events = min(sequence.last_step + 1, self.steps) - sequence.first_step
        counts = np.full(events, self.model.tokens_per_step, np.int32)
        counts[0] = 1
        counts[-1] -= max(0, int(counts.sum()) - sequence.max_tokens)
        return counts

    def _start_step(self, now_ns: int) -> None:
        self._chunks = self._schedule_prefills()
        sequences = len(self._decoding) + len(self._chunks)
        if not sequences:
            self.next_step_end_ns = None
            return
        context_tokens = self._decode_context_tokens
        prefill_tokens = 0
        for sequence, tokens in self._chunks:
            context_tokens += sequence.computed_tokens
            prefill_tokens += tokens
        self.next_step_end_ns = now_ns + self.model.step_ns(
            sequences, context_tokens, prefill_tokens
        )

    def _schedule_prefills(self) -> list[tuple[Sequence, int]]:
        """Share the budget: sequences already begun, then the queue while it lasts."""
        if not self._prefilling and not self._waiting:
            return []
        budget = self.model.prefill_budget_tokens
        chunks: list[tuple[Sequence, int]] = []
        for sequence in self._prefilling:
            budget = _take(sequence, budget, chunks)
        while budget and self._admit_head():
            budget = _take(self._prefilling[-1], budget, chunks)
        return chunks

    def _admit_head(self) -> bool:
        """Admit the head of the queue if it fits, blocks for all its output included."""
        if not self._waiting or self._head_is_blocked or self.running >= self.model.max_running:
            return False
        sequence, block_tokens = self._waiting[0], self.model.block_tokens
        total_tokens = sequence.prompt_tokens + sequence.max_tokens
        lease = self.cache.admit(
            sequence.block_ids,
            match_limit=(sequence.prompt_tokens - 1) // block_tokens,
            total_blocks=-(-total_tokens // block_tokens),
        )
        if lease is None:
            self._head_is_blocked = True  # until a sequence lets go of its blocks
            return False
        self._prefilling.append(self._waiting.popleft())
        sequence.lease = lease
        sequence.cached_tokens = sequence.computed_tokens = lease.blocks * block_tokens
        sequence.state = SequenceState.PREFILL
        self.looked_up_tokens += sequence.prompt_tokens
        self.found_tokens += sequence.cached_tokens
        return True

    def _advance_prefills(self, step: int) -> list[Sequence]:
        started = []
        for sequence, tokens in self._chunks:
            lease = sequence.lease
            if sequence.state is not SequenceState.PREFILL or lease is None:
                continue
            sequence.computed_tokens += tokens
            computed_blocks = sequence.computed_tokens // self.model.block_tokens
            self.cache.insert(lease, sequence.block_ids[lease.blocks : computed_blocks])
            if sequence.computed_tokens == sequence.prompt_tokens:
                self._start_decode(sequence, step)
                started.append(sequence)
        return started

    def _start_decode(self, sequence: Sequence, step: int) -> None:
        self._prefilling.remove(sequence)
        sequence.state = SequenceState.DECODE
        sequence.first_step = step
        sequence.last_step = step - (1 - sequence.max_tokens) // self.model.tokens_per_step
        self._decoding[sequence] = None
        self._decode_context_tokens += sequence.prompt_tokens + 1
        self._finish_filings += 1
        heapq.heappush(self._finishes, (sequence.last_step, self._finish_filings, sequence))

    def _finish(self, step: int) -> list[Sequence]:
        finished = []
        while self._finishes and self._finishes[0][0] <= step:
            sequence = heapq.heappop(self._finishes)[2]
            if sequence.state is SequenceState.DECODE:
                if sequence.lease is not None:
                    self.cache.insert(sequence.lease, sequence.output_ids)
                self._leave_decode(sequence)
                sequence.state = SequenceState.FINISHED
                finished.append(sequence)
        return finished

    def _leave_decode(self, sequence: Sequence) -> None:
        steps_since_first = self.steps - 1 - sequence.first_step
        self._decode_context_tokens -= (
            sequence.prompt_tokens + 1 + steps_since_first * self.model.tokens_per_step
        )
        del self._decoding[sequence]
        self._let_go(sequence)

    def _let_go(self, sequence: Sequence) -> None:
        if sequence.lease is not None:
            self.cache.release(sequence.lease)
            sequence.lease = None
        self._head_is_blocked = False

    def _trim(self) -> None:
        """Forget step ends that no sequence still yields tokens in."""
        if len(self._step_ends_ns) < _TRIM_STEPS:
            return
        oldest = next(iter(self._decoding)).first_step if self._decoding else self.steps
        needless = oldest - self._trimmed_steps
        if needless > _TRIM_STEPS // 2:
            del self._step_ends_ns[:needless]
            self._trimmed_steps = oldest


def _take(sequence: Sequence, budget: int, chunks: list[tuple[Sequence, int]]) -> int:
    """Give a sequence what it needs of the budget; return what is left."""
    tokens = min(budget, sequence.prompt_tokens - sequence.computed_tokens)
    if tokens:
        chunks.append((sequence, tokens))
    return budget - tokens
