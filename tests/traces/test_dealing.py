"""The first sessions that are dealt are like all."""

from itertools import accumulate
from random import Random

import pytest

from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.dealing import balanced_order, input_and_requests

Sizes = list[tuple[int, int]]


def tokens_a_request(sizes: Sizes, order: list[int]) -> list[float]:
    """Of the first 1, 2, 3 … sessions, over that of all."""
    tokens = accumulate(sizes[place][0] for place in order)
    requests = accumulate(sizes[place][1] for place in order)
    firsts = [t / r for t, r in zip(tokens, requests, strict=True)]
    return [each / firsts[-1] for each in firsts]


def test_medium_small_and_large_come_in_turn_by_what_brings_the_means_nearest() -> None:
    # In units of the means of tokens (200) and requests (2): small .25 and .5, medium .75 and 1,
    # large 1.5 and 2, of 1 request a 100 tokens. First the medium of 1 (distance 0); then of small
    # the .5, as (1 + .5) / 2 is nearer to 1; then 1.5: together 3 / 3. Then the rest in turn.
    sizes = [(50, 1), (100, 1), (150, 2), (200, 2), (300, 3), (400, 3)]
    assert balanced_order(sizes) == [3, 1, 4, 2, 0, 5]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_every_session_is_dealt_once(count: int) -> None:
    chance = Random(count)
    sizes = [(chance.randint(1, 9), chance.randint(1, 9)) for _ in range(count)]
    assert sorted(balanced_order(sizes)) == list(range(count))


def test_the_mean_prompt_of_the_first_eight_or_more_bundled_sessions_is_that_of_all() -> None:
    sizes = [input_and_requests(s) for s in read_corpus(shipped_directory("traces")).sessions]
    means = tokens_a_request(sizes, list(range(len(sizes))))  # in corpus order
    assert all(0.85 < mean < 1.15 for mean in means[7:])
    assert all(0.75 < mean < 1.25 for mean in means[3:])
