"""The engine's state as a metrics page: the Prometheus text format, under the names vLLM gives.

Pure: what is told is read off the engine. As in vLLM a prompt counts as looked up when it is
admitted, in tokens, and memory in use is that of running sequences: what is merely kept is free.
"""

from agentx_replay.simulator.engine import Engine

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def metrics_page(engine: Engine, model: str) -> bytes:
    """Return the answer to ``GET /metrics``."""
    labels = f'engine="0",model_name="{_escaped(model)}"'
    lines: list[str] = []
    for name, kind, meaning, value in _readings(engine):
        lines += [
            f"# HELP {name} {meaning}",
            f"# TYPE {name} {kind}",
            f"{name}{{{labels}}} {float(value)!r}",
        ]
    return "\n".join([*lines, ""]).encode()


def _readings(engine: Engine) -> tuple[tuple[str, str, str, float], ...]:
    cache = engine.cache
    return (
        ("vllm:num_requests_running", "gauge", "Requests in the batch.", engine.running),
        ("vllm:num_requests_waiting", "gauge", "Requests not yet admitted.", engine.waiting),
        (
            "vllm:kv_cache_usage_perc",
            "gauge",
            "Share of the blocks that running requests hold or have reserved, 1 is all.",
            cache.used_blocks / cache.capacity_blocks,
        ),
        (
            "vllm:num_preemptions_total",
            "counter",
            "Requests put back to make room; this engine never does.",
            0,
        ),
        (
            "vllm:prefix_cache_queries_total",
            "counter",
            "Prompt tokens looked up in the prefix cache.",
            engine.looked_up_tokens,
        ),
        (
            "vllm:prefix_cache_hits_total",
            "counter",
            "Prompt tokens found in it.",
            engine.found_tokens,
        ),
    )


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
