"""What the tokens of compared systems cost at a target speed, and what a GPU and its peak yield.

Of the headline's throughput; input is the rest of total and output. Costs are of a GPU-hour that
was used: price / utilisation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agentx_replay.analysis.comparison import Comparison, Contender
from agentx_replay.analysis.cost import dollars_per_million_tokens
from agentx_replay.analysis.curve import Definition, value_at

_KINDS = {
    "total": Definition("all tokens", "p90", "total"),
    "input": Definition("input tokens", "p90", "input"),
    "output": Definition("output tokens", "p90", "output"),
    "uncached": Definition("without reused input", "p90", "uncached"),
}
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Economy:
    """One system at one target, per GPU. ``tokens_per_s`` and ``dollars_per_million`` are by kind
    of token; ``tokens_per_day`` of a GPU as far as it is used. ``per_peak_pflops`` is tokens/s per
    10^15 operations/s that the GPU does at most. None: something is not given.
    """

    tokens_per_s: Mapping[str, float | None]
    dollars_per_million: Mapping[str, float | None]
    tokens_per_day: float | None
    per_peak_pflops: float | None
    output_per_decode_gpu: float | None
    input_per_prefill_gpu: float | None


def economies(comparison: Comparison, target: float) -> list[Economy]:
    """Return the economy of each system at a target."""
    return [_economy(each, _rates(each, target)) for each in comparison.contenders]


def _rates(contender: Contender, target: float) -> dict[str, float | None]:
    points = contender.run.points
    return {kind: value_at(points, of, target).value for kind, of in _KINDS.items()}


def _economy(of: Contender, rates: Mapping[str, float | None]) -> Economy:
    system, total = of.run.system, rates["total"]
    peak = system.get("peak_pflops")
    return Economy(
        tokens_per_s=rates,
        dollars_per_million={
            kind: None
            if not rate or of.price is None
            else dollars_per_million_tokens(rate, of.price, of.utilisation)
            for kind, rate in rates.items()
        },
        tokens_per_day=total and total * _SECONDS_PER_DAY * of.utilisation,
        per_peak_pflops=total / peak if total and peak else None,
        output_per_decode_gpu=_per_role(of, rates["output"], "decode_gpus"),
        input_per_prefill_gpu=_per_role(of, rates["input"], "prefill_gpus"),
    )


def _per_role(of: Contender, per_gpu: float | None, role: str) -> float | None:
    """Return what the GPUs of a role do, each, of a throughput per GPU of all; None without roles:
    InferenceX's rule.
    """
    gpus = of.run.system.get(role)
    if not of.run.system.get("disagg") or not gpus or per_gpu is None or of.run.gpus is None:
        return None
    return float(per_gpu * of.run.gpus / gpus)
