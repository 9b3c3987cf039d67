"""The public statistics of recorded coding agents, as distributions to draw from.

The numbers were fitted to a public set of 710 recordings of April 2026 (docs/traces.md). What a
session is made of is ``generate.py``'s.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeAlias

Fit: TypeAlias = tuple[tuple[float, float, float], ...]
"""A mixture of lognormals: of each its weight (they add to 1), and the mean and standard deviation
of its natural logarithm."""

REQUESTS_PER_SESSION: Fit = ((0.125, 1.649, 0.339), (0.875, 3.900, 0.939))

GROWTH_TOKENS: Fit = ((0.151, 5.344, 0.383), (0.406, 6.292, 0.634), (0.443, 7.440, 1.128))
"""By how much a prompt is longer than the one before it in its conversation."""

OUTPUT_TOKENS: Fit = ((0.343, 4.939, 0.316), (0.339, 5.639, 0.543), (0.318, 6.170, 1.129))

TOOL_GAP_S: Fit = ((0.679, 1.930, 0.530), (0.321, 3.723, 1.421))
"""From the end of a request to one that brings a tool's result."""

USER_GAP_S: Fit = ((0.849, 4.427, 1.429), (0.151, 7.286, 1.035))
"""From the end of a request to one that brings what a person wrote."""

TOOL_TOKENS: Fit = ((1.0, 9.352, 0.171),)
SYSTEM_TOKENS: Fit = ((1.0, 7.879, 0.339),)
PROMPT_FAMILIES = 10
"""So few pairs of tool and system prompts are shared by all sessions."""

FRESH_START = 0.55
"""The share of sessions that begin with tools, system and ``FIRST_USER_TOKENS``; the others
begin with ``RESUMED_TOKENS`` in all."""

FIRST_USER_TOKENS: Fit = ((1.0, 7.981, 0.938),)
RESUMED_TOKENS: Fit = ((1.0, 11.779, 0.775),)

TOOL_AFTER_TOOL, TOOL_AFTER_USER = 0.924, 0.521
"""The probability that a request brings a tool's result, by what the one before it brought."""

TAIL_EDIT, MID_EDIT, REBUILD = 0.046, 0.005, 0.0085
"""The probability of each per turn: the last blocks change; blocks in the middle change; the
prompt is made anew at the same size, keeping less than the system prompt."""

COMPACTION = 0.06
COMPACTION_FROM_TOKENS = 150_000
COMPACTED_TOKENS = 36_000
"""The probability per turn that a prompt of at least so many tokens is cut down to about so many,
keeping tools and system."""

SUBAGENT_REQUESTS: Fit = ((1.0, 2.398, 0.5),)
"""Requests inside a subagent; the median is 11."""


def draw(fit: Fit, rng: Random) -> float:
    [(_, mu, sigma)] = fit if len(fit) == 1 else rng.choices(fit, [weight for weight, _, _ in fit])
    return rng.lognormvariate(mu, sigma)


def duration_s(input_tokens: int, new_tokens: int, output_tokens: int) -> float:
    """Return the mean time that the recorded services took for a request."""
    return 1.11 + 0.0155 * output_tokens + 1.5e-5 * new_tokens + 1.3e-5 * input_tokens


def one_of(rng: Random, probabilities: Sequence[float]) -> int | None:
    """Draw one of several exclusive events, or None for the rest of the probability."""
    left = rng.random()
    for index, probability in enumerate(probabilities):
        left -= probability
        if left < 0:
            return index
    return None
