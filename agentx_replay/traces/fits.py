"""The public statistics of recorded coding agents, as distributions to draw from.

The numbers were fitted to a public set of 710 recordings of April 2026 (docs/traces.md); no
recording is needed to draw from them. What a session is made of is ``generate.py``'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A lognormal by the mean and standard deviation of its natural logarithm."""

    mu: float
    sigma: float

    def draw(self, rng: Random) -> float:
        return rng.lognormvariate(self.mu, self.sigma)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Distributions with the probability of each; the probabilities add to 1."""

    parts: tuple[tuple[float, LogNormal], ...]

    def draw(self, rng: Random) -> float:
        weights = [weight for weight, _ in self.parts]
        [part] = rng.choices([part for _, part in self.parts], weights)
        return part.draw(rng)


REQUESTS_PER_SESSION = Mixture(((0.125, LogNormal(1.649, 0.339)), (0.875, LogNormal(3.900, 0.939))))

GROWTH_TOKENS = Mixture(
    (
        (0.151, LogNormal(5.344, 0.383)),
        (0.406, LogNormal(6.292, 0.634)),
        (0.443, LogNormal(7.440, 1.128)),
    )
)
"""By how much a prompt is longer than the one before it in its stream."""

OUTPUT_TOKENS = Mixture(
    (
        (0.343, LogNormal(4.939, 0.316)),
        (0.339, LogNormal(5.639, 0.543)),
        (0.318, LogNormal(6.170, 1.129)),
    )
)

TOOL_GAP_S = Mixture(((0.679, LogNormal(1.930, 0.530)), (0.321, LogNormal(3.723, 1.421))))
"""From the end of a request to one that brings a tool's result."""

USER_GAP_S = Mixture(((0.849, LogNormal(4.427, 1.429)), (0.151, LogNormal(7.286, 1.035))))
"""From the end of a request to one that brings what a person wrote."""

TOOL_TOKENS = LogNormal(9.352, 0.171)
SYSTEM_TOKENS = LogNormal(7.879, 0.339)
PROMPT_FAMILIES = 10
"""So few pairs of tool and system prompts are shared by all sessions."""

FRESH_START = 0.55
"""The share of sessions that begin with tools, system and ``FIRST_USER_TOKENS``; the others
begin with ``RESUMED_TOKENS`` in all."""

FIRST_USER_TOKENS = LogNormal(7.981, 0.938)
RESUMED_TOKENS = LogNormal(11.779, 0.775)

TOOL_AFTER_TOOL = 0.924
TOOL_AFTER_USER = 0.521
"""The probability that a request brings a tool's result, by what the one before it brought."""

TAIL_EDIT = 0.046
MID_EDIT = 0.005
REBUILD = 0.0085
"""The probability of each per turn: the last blocks change; blocks in the middle change; the
prompt is made anew at the same size, keeping less than the system prompt."""

COMPACTION = 0.06
COMPACTION_FROM_TOKENS = 150_000
COMPACTED_TOKENS = 36_000
"""The probability per turn that a prompt of at least so many tokens is cut down to about so many,
keeping tools and system."""

SUBAGENT_REQUESTS = LogNormal(2.398, 0.5)
"""Requests inside a subagent; the median is 11."""


def duration_s(input_tokens: int, new_tokens: int, output_tokens: int) -> float:
    """Return the mean time that the recorded services took for a request."""
    return 1.11 + 0.0155 * output_tokens + 1.5e-5 * new_tokens + 1.3e-5 * input_tokens


def next_is_tool(rng: Random, *, after_tool: bool) -> bool:
    """Draw whether the next request brings a tool's result."""
    return rng.random() < (TOOL_AFTER_TOOL if after_tool else TOOL_AFTER_USER)


def one_of(rng: Random, probabilities: Sequence[float]) -> int | None:
    """Draw one of several exclusive events, or None for the rest of the probability."""
    left = rng.random()
    for index, probability in enumerate(probabilities):
        left -= probability
        if left < 0:
            return index
    return None
