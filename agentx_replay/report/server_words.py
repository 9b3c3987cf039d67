"""What a server's own page tells of a level, in words: tiers, pool, queues, its own latencies."""

from agentx_replay.analysis.metrics import PointSummary
from agentx_replay.analysis.point import Point
from agentx_replay.analysis.server_facts import ServerFacts
from agentx_replay.report.numerals import rate, share


def server_text(point: Point) -> str | None:
    """Return what the page tells, None where it tells nothing."""
    of = point.server
    if of is None:
        return None
    parts = [*_cache(of), *_moved(of), *_waiting(of), *_latencies(of, point.summary)]
    return "; ".join(parts) or None


def _cache(of: ServerFacts) -> list[str]:
    parts = []
    if len(of.cached_from) > 1:
        tiers = ", ".join(f"{tier} {share(part)}" for tier, part in of.cached_from)
        parts.append(f"cached {share(sum(part for _, part in of.cached_from))}% ({tiers})")
    if of.pool_tokens is not None:
        pool = f"KV pool {rate(of.pool_tokens)} tokens"
        if of.longest_prompt_tokens:
            pool += f" = {of.pool_tokens / of.longest_prompt_tokens:,.1f} of the longest prompts"
        parts.append(pool)
    if of.host_usage is not None:
        parts.append(f"host tier at most {share(of.host_usage)}% in use")
    return parts


def _moved(of: ServerFacts) -> list[str]:
    moved = (("loaded from", of.loaded_bytes), ("stored to", of.stored_bytes))
    return [f"{rate(told / 1e9)} GB {what} other tiers" for what, told in moved if told is not None]


def _waiting(of: ServerFacts) -> list[str]:
    waiting = ", ".join(f"{reason} {rate(mean)}" for reason, mean in of.waiting_for)
    return [f"waiting on average: {waiting}"] if waiting else []


def _latencies(of: ServerFacts, summary: PointSummary | None) -> list[str]:
    ttft, itl = (summary.ttft, summary.token_itl) if summary else (None, None)
    parts = []
    if of.ttft_p90_s is not None:
        here = rate(ttft.p90_s if ttft else None)
        parts.append(f"its TTFT P90 {rate(of.ttft_p90_s)} s, here {here}")
    if of.itl_p90_s is not None:
        here = rate(itl.p90_s * 1e3 if itl else None)
        parts.append(f"its token ITL P90 {rate(of.itl_p90_s * 1e3)} ms, here {here}")
    if of.queue_p90_s is not None:
        parts.append(f"its queue P90 {rate(of.queue_p90_s)} s")
    return parts
