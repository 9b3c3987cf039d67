"""What the completed requests of a level were like, so that two runs can be told apart.

The loop is closed: a faster server gets through more of each session, so even runs of one plan
complete different requests. Not for judging speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from agentx_replay.analysis.responses import Floats, Responses

_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Measured requests: input and output in tokens, depth (turns before it in its conversation),
    and the share of the prompt that an unlimited cache would hold. All of shape ``(requests,)``.
    """

    input_tokens: Floats
    output_tokens: Floats
    depth_turns: Floats
    reuse_share: Floats


MIX_PARTS = tuple(field.name for field in fields(Mix))


@dataclass(frozen=True, slots=True)
class MixSummary:
    """One distribution: mean and P10, P50, P90; None of nothing."""

    mean: float
    p10: float
    p50: float
    p90: float


def mix_of(ok: Responses) -> Mix:
    """Return the mix of measured responses."""
    planned = ok.planned_prompt_tokens
    return Mix(
        input_tokens=ok.prompt_tokens,
        output_tokens=ok.completion_tokens,
        depth_turns=ok.turn.astype(float),
        reuse_share=ok.reusable_tokens / np.where(planned > 0, planned, np.nan),
    )


def pooled(mixes: Sequence[Mix]) -> Mix:
    """Return several levels' requests as one mix."""
    return Mix(*(np.concatenate([getattr(mix, p) for mix in mixes] or [[]]) for p in MIX_PARTS))


def summary(values: Floats) -> MixSummary | None:
    """Return mean and percentiles of the values that are there; None where none is."""
    there = values[~np.isnan(values)]
    if not len(there):
        return None
    p10, p50, p90 = (float(q) for q in np.quantile(there, _QUANTILES))
    return MixSummary(float(there.mean()), p10, p50, p90)


def largest_gap(a: Floats, b: Floats) -> float | None:
    """Return the largest difference of the two cumulative distributions, from 0 (the same) to 1:
    the statistic of Kolmogorov and Smirnov. None where either is empty.
    """
    a, b = np.sort(a[~np.isnan(a)]), np.sort(b[~np.isnan(b)])
    if not len(a) or not len(b):
        return None
    everywhere = np.concatenate([a, b])
    shares = [np.searchsorted(v, everywhere, side="right") / len(v) for v in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())
