"""What came of a load that the client drove exactly."""

from dataclasses import replace
from typing import Any

from agentx_replay.analysis.client_error import Driven

_EXACT = Driven(
    streams=4,
    burst=True,
    planned_tokens_per_s=80.0,
    tokens_per_s=79.0,
    cpu_us_per_token=12.34,
    cpu_share=0.04,
    failed=0,
    stamp_error_p50_s=0.0001,
    stamp_error_p99_s=0.002,
    stamp_error_p999_s=0.0031,
    ttft_error_p50_s=0.0004,
    ttft_error_p99_s=0.0051,
    itl_error=0.0012,
    late_event_share=0.00256,
    timestamps="kernel",
)


def driven(**changes: Any) -> Driven:
    """A load of 4 streams with 20 tokens/s each, but for the changes."""
    return replace(_EXACT, **changes)
