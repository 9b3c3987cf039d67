"""Cost per token, and how an advantage in tokens per dollar splits into throughput and price.

Prices are inputs: dollars per GPU-hour, at a utilisation in (0, 1].
"""

import math
from dataclasses import dataclass

_SECONDS_PER_HOUR = 3600


def tokens_per_dollar(
    tokens_per_s_per_gpu: float, price_per_gpu_hour: float, utilisation: float = 1.0
) -> float:
    return tokens_per_s_per_gpu * _SECONDS_PER_HOUR * utilisation / price_per_gpu_hour


def dollars_per_million_tokens(
    tokens_per_s_per_gpu: float, price_per_gpu_hour: float, utilisation: float = 1.0
) -> float:
    return 1e6 / tokens_per_dollar(tokens_per_s_per_gpu, price_per_gpu_hour, utilisation)


@dataclass(frozen=True, slots=True)
class Advantage:
    """How many times as many tokens per dollar one system gives, and where that comes from.

    ``ratio`` = ``throughput_ratio`` × ``price_ratio``. The shares are by logarithms and add up
    to 1; None where the ratio is 1 and there is nothing to split.
    """

    ratio: float
    throughput_ratio: float
    price_ratio: float
    throughput_share: float | None
    price_share: float | None

    @property
    def cost_change(self) -> float:
        """Relative change of the cost per token: −0.2 is a fifth cheaper."""
        return 1.0 / self.ratio - 1.0


def advantage(
    tokens_per_s_per_gpu: tuple[float, float], price_per_gpu_hour: tuple[float, float]
) -> Advantage:
    throughput_ratio = tokens_per_s_per_gpu[0] / tokens_per_s_per_gpu[1]
    price_ratio = price_per_gpu_hour[1] / price_per_gpu_hour[0]
    ratio = throughput_ratio * price_ratio
    if math.isclose(ratio, 1.0):
        return Advantage(ratio, throughput_ratio, price_ratio, None, None)
    share = math.log(throughput_ratio) / math.log(ratio)
    return Advantage(ratio, throughput_ratio, price_ratio, share, 1.0 - share)


def break_even_cycle_growth(
    tokens_per_cycle: float, tokens_per_cycle_with_one_more: float
) -> float:
    """How much longer, relatively, a speculative cycle may take before one more draft token no
    longer pays.
    """
    return tokens_per_cycle_with_one_more / tokens_per_cycle - 1.0
