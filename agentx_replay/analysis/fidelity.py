"""Did the replay keep what it must: the fidelity report of one point.

Lengths, prefix reuse, live trees and isolation come from the tables alone and are computed here.
What needs the recorded graph (order, joins, gaps, the prefix graph) is a ``Conformity``, worked
out where the plan is at hand. Nothing here judges whether a point is valid.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from agentx_replay.analysis.responses import MEASURED_STATUSES, Window, happened_in
from agentx_replay.units import NS_PER_MS

COLUMNS: tuple[str, ...] = (
    "phase",
    "status",
    "play_id",
    "session_id",
    "lane",
    "play_number",
    "conversation",
    "turn",
    "request_index",
    "play_request",
    "gap_s",
    "recorded_input_tokens",
    "recorded_output_tokens",
    "planned_prompt_tokens",
    "shared_blocks",
    "kept_blocks",
    "conversation_kept_blocks",
    "declared_blocks",
    "says_answer",
    "own_block",
    "skipped_ns",
    "send_ns",
    "end_ns",
    "prompt_tokens",
    "completion_tokens",
)
"""The columns of ``requests.parquet`` that a fidelity report needs."""


@dataclass(frozen=True, slots=True)
class LengthErrors:
    """Tokens the server counted less those wanted, over ``count`` measured responses.

    ``aggregate`` is the sum of errors over the tokens wanted.
    """

    count: int
    share_exact: float
    least: int
    p50: float
    p99_absolute: float
    greatest: int
    aggregate: float


@dataclass(frozen=True, slots=True)
class Excess:
    """How much later than the earliest instant its recording allows a request was sent.

    ``early`` counts those sent before it, which must be none.
    """

    count: int
    early: int
    p50_ms: float
    p99_ms: float
    greatest_ms: float


@dataclass(frozen=True, slots=True)
class Conformity:
    """What was sent against the recorded graph; ``requests`` were checked.

    ``order`` counts requests sent before their conversation's predecessor, or a request of another
    conversation that they follow, had ended; ``joins`` before a child they wait for was over;
    ``spawns`` before the request that spawns their conversation. ``prefixes`` kept other blocks of
    the play's earlier prompts than the recording says. A reset keeps less than half of the blocks
    of the conversation's prompt before; ``reset_kept_tokens`` is what the resets kept in all.
    ``repeated_prompts`` were sent again whole, as recorded. ``dropped_requests`` are left out by
    the scenario's reading, ``abandoned_requests`` were never sent as their conversation overflowed.
    ``empty_subagents`` have no request, ``unawaited_conversations`` are agents that no request
    waits for. The other counts are of the sessions that were played. ``prefixes``, ``resets_sent``
    and ``reset_kept_tokens_sent`` are None where they are not known (``without_prefixes``).
    """

    requests: int
    order: int
    joins: int
    spawns: int
    gaps: Excess | None
    prefixes: int | None
    overdeclared: int
    resets_recorded: int
    resets_sent: int | None
    reset_kept_tokens_recorded: int
    reset_kept_tokens_sent: int | None
    repeated_prompts: int
    dropped_requests: int
    abandoned_requests: int
    negative_gaps: int
    missing_durations: int
    short_block_lists: int
    empty_subagents: int = 0
    unawaited_conversations: int = 0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The fidelity report of a point: over the window, but for isolation, which is over all.

    ``reuse_sent`` is the share of prompt tokens that earlier prompts of the play held, by the
    words sent; ``reuse_recorded`` that of the recording, in which the session also sent what
    lies before t*. ``trees_least`` and ``trees_most`` are plays alive at any moment.
    ``shared_between_plays`` counts blocks past the declared prefix that two plays sent.
    ``raised_outputs`` recorded no token and ask for one; ``lengthened_prompts`` recorded less
    than the chat template alone costs. ``system_skipped_s`` is the idle time that all lanes skipped
    together, ``session_skipped_s`` the sum of what single plays skipped; None where a kill took the
    plays' own account of it. ``answers_fed_back`` prompts said what the server had answered, of
    ``answers_due`` that go on from one that had ended in the window; both 0 without live history.
    """

    prompt_lengths: LengthErrors | None
    output_lengths: LengthErrors | None
    reuse_sent: float | None
    reuse_recorded: float | None
    trees_wanted: int
    trees_least: int
    trees_most: int
    shared_between_plays: int
    raised_outputs: int
    lengthened_prompts: int
    plays: int
    sessions: int
    conformity: Conformity
    system_skipped_s: float | None = None
    session_skipped_s: float | None = None
    answers_fed_back: int = 0
    answers_due: int = 0


def fidelity(
    requests: pa.Table,
    plays: pa.Table,
    window: Window,
    concurrency: int,
    conformity: Conformity,
    block_tokens: Mapping[str, int],
) -> Fidelity:
    """Return the report of a point from its tables (``requests`` with ``COLUMNS``).

    ``block_tokens`` says how many tokens a block of each session has, by the session's id.
    """
    sent = requests.filter(pc.equal(requests["phase"], "window"))
    sent = sent.filter(pa.array(happened_in(sent["send_ns"].to_numpy(), window)))
    measured = sent.filter(pc.is_in(sent["status"], pa.array(MEASURED_STATUSES)))
    wanted_output = pc.max_element_wise(measured["recorded_output_tokens"], 1)
    input_tokens = sent["recorded_input_tokens"]
    sizes = _block_tokens(sent["session_id"], block_tokens)
    whole_blocks = pc.divide(input_tokens, sizes)
    least, most = live_trees(plays, window)
    system_skipped_s, session_skipped_s = skipped_s(plays)
    return Fidelity(
        prompt_lengths=length_errors(measured["prompt_tokens"], measured["recorded_input_tokens"]),
        output_lengths=length_errors(measured["completion_tokens"], wanted_output),
        reuse_sent=_reuse(pc.multiply(sent["kept_blocks"], sizes), sent["planned_prompt_tokens"]),
        reuse_recorded=_reuse(
            pc.multiply(pc.min_element_wise(sent["shared_blocks"], whole_blocks), sizes),
            input_tokens,
        ),
        trees_wanted=concurrency,
        trees_least=least,
        trees_most=most,
        shared_between_plays=shared_between_plays(requests),
        raised_outputs=_count(pc.equal(sent["recorded_output_tokens"], 0)),
        lengthened_prompts=_count(pc.greater(sent["planned_prompt_tokens"], input_tokens)),
        plays=len(plays),
        sessions=pc.count_distinct(plays["session_id"]).as_py(),
        conformity=conformity,
        system_skipped_s=system_skipped_s,
        session_skipped_s=session_skipped_s,
        answers_fed_back=_count(sent["says_answer"]),
        answers_due=pc.count(sent["says_answer"]).as_py(),
    )


def without_prefixes(report: Fidelity) -> Fidelity:
    """Return the report of a point whose prompts held the server's own answers: by words, which
    are all that is on record, nothing can be said of what such prompts shared.
    """
    of = replace(report.conformity, prefixes=None, resets_sent=None, reset_kept_tokens_sent=None)
    return replace(report, reuse_sent=None, conformity=of)


def skipped_s(plays: pa.Table) -> tuple[float | None, float | None]:
    """Return the idle seconds that all lanes skipped together, and the sum of single plays'.

    Every play counts what all skipped while it lived; the plays of a lane follow one another.
    """
    if not {"system_skipped_s", "session_skipped_s"} <= set(plays.column_names):
        return None, None
    _, lane = np.unique(plays["lane"].to_numpy(), return_inverse=True)
    by_lane_s = np.bincount(lane, plays["system_skipped_s"].fill_null(0.0).to_numpy())
    return float(by_lane_s.max(initial=0.0)), pc.sum(plays["session_skipped_s"]).as_py() or 0.0


def length_errors(counted: pa.ChunkedArray, wanted: pa.ChunkedArray) -> LengthErrors | None:
    told = pc.is_valid(counted)
    numbers = counted.filter(told).to_numpy().astype(np.int64)
    if not len(numbers):
        return None
    tokens = wanted.filter(told).to_numpy().astype(np.int64)
    errors = numbers - tokens
    return LengthErrors(
        count=len(errors),
        share_exact=float((errors == 0).mean()),
        least=int(errors.min()),
        p50=float(np.percentile(errors, 50)),
        p99_absolute=float(np.percentile(np.abs(errors), 99)),
        greatest=int(errors.max()),
        aggregate=float(errors.sum() / max(1, tokens.sum())),
    )


def excess(late_ns: NDArray[np.int64]) -> Excess | None:
    """Summarise how late requests were sent, in ns each; None for none."""
    if not len(late_ns):
        return None
    p50_ns, p99_ns = np.percentile(late_ns, (50, 99))
    return Excess(
        count=len(late_ns),
        early=int((late_ns < 0).sum()),
        p50_ms=float(p50_ns) / NS_PER_MS,
        p99_ms=float(p99_ns) / NS_PER_MS,
        greatest_ms=float(late_ns.max()) / NS_PER_MS,
    )


def live_trees(plays: pa.Table, window: Window) -> tuple[int, int]:
    """Return the least and the greatest number of plays alive at any moment of the window.

    A play lives from its start to before its end; one without an end lives on.
    """
    starts_ns = np.sort(plays["start_ns"].to_numpy())
    ends_ns = np.sort(plays["end_ns"].drop_null().to_numpy())
    changes_ns = np.concatenate((starts_ns, ends_ns))
    inside = (changes_ns > window.open_ns) & (changes_ns < window.close_ns)
    instants_ns = np.append(changes_ns[inside], window.open_ns)
    alive = np.searchsorted(starts_ns, instants_ns, "right") - np.searchsorted(
        ends_ns, instants_ns, "right"
    )
    return int(alive.min()), int(alive.max())


def shared_between_plays(requests: pa.Table) -> int:
    """Count the blocks past the declared prefix that more than one play sent first of its own.

    A prefix cache can reuse only from the first block on, so two plays whose first own blocks
    differ share nothing beyond what is declared.
    """
    sent = requests.select(["own_block", "play_id"]).filter(pc.is_valid(requests["own_block"]))
    own = set(zip(sent["own_block"].to_pylist(), sent["play_id"].to_pylist(), strict=True))
    plays = Counter(block for block, _ in own)
    return sum(count > 1 for count in plays.values())


def _block_tokens(session_id: pa.ChunkedArray, block_tokens: Mapping[str, int]) -> pa.Array:
    coded = session_id.combine_chunks().dictionary_encode()
    sizes = [block_tokens[each] for each in coded.dictionary.to_pylist()]
    return pa.array(np.array(sizes, np.int64)[coded.indices.to_numpy()])


def _reuse(reused_tokens: pa.ChunkedArray, tokens: pa.ChunkedArray) -> float | None:
    total = pc.sum(tokens).as_py()
    return pc.sum(reused_tokens).as_py() / total if total else None


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
