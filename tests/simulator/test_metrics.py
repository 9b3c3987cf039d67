"""The simulator's metrics page says what its engine's state is, under vLLM's names."""

import numpy as np
import uvloop
from raw_http import connected, get, post

from agentx_replay.simulator.api import metrics_page
from agentx_replay.simulator.engine import Engine, EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server

# Blocks of 10 tokens, 20 of them; one sequence at a time.
MODEL = EngineModel(block_tokens=10, cache_blocks=20, max_running=1, max_model_len=200)


def told(engine: Engine) -> dict[str, float]:
    lines = metrics_page(engine, "m").decode().splitlines()
    values = [line.split() for line in lines if not line.startswith("#")]
    assert all(name.endswith('{engine="0",model_name="m"}') for name, _ in values)
    return {name.partition("{")[0].removeprefix("vllm:"): float(value) for name, value in values}


def ids(*contents: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array(contents, np.uint64)


def test_an_idle_engine_says_0_of_everything() -> None:
    assert told(Engine(MODEL)) == {
        "num_requests_running": 0, "num_requests_waiting": 0, "kv_cache_usage_perc": 0,
        "num_preemptions_total": 0, "prefix_cache_queries_total": 0, "prefix_cache_hits_total": 0,
    }  # fmt: skip


def test_what_runs_waits_and_is_held_is_told_and_what_is_merely_kept_is_free() -> None:
    engine = Engine(MODEL)
    engine.submit(0, ids(1, 2, 3), 35, 5)  # four blocks: 40 tokens with its output
    engine.submit(0, ids(1, 2, 4), 35, 15)  # waits: it shares two blocks, and needs five
    first = told(engine)
    assert (first["num_requests_running"], first["num_requests_waiting"]) == (1, 1)
    assert first["kv_cache_usage_perc"] == 4 / 20
    assert first["prefix_cache_queries_total"] == 35
    assert first["prefix_cache_hits_total"] == 0
    while engine.waiting:
        engine.complete_step()
    second = told(engine)
    assert (second["num_requests_running"], second["num_requests_waiting"]) == (1, 0)
    assert second["kv_cache_usage_perc"] == 5 / 20  # the first's third block is kept, and free
    assert second["prefix_cache_queries_total"] == 70
    assert second["prefix_cache_hits_total"] == 20
    while engine.running:
        engine.complete_step()
    assert told(engine)["kv_cache_usage_perc"] == 0


def test_a_models_name_cannot_break_the_page() -> None:
    page = metrics_page(Engine(MODEL), 'a"b\\c\nd').decode()
    assert 'model_name="a\\"b\\\\c\\nd"} 0.0' in page
    assert len(page.splitlines()) == 18  # six metrics, each with its help and its type


def test_the_page_is_served_as_prometheus_text_and_to_get_alone() -> None:
    async def main() -> None:
        async with (
            running_server(ServerConfig(model="m", engine=EngineModel(step_base_ms=1))) as running,
            connected(running.port) as client,
        ):
            body = {"prompt": list(range(200)), "max_tokens": 1}
            for _ in range(2):
                assert (await client.ask(post("/v1/completions", body))).status == 200
            answer = await client.ask(get("/metrics"))
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            lines = answer.body.decode().splitlines()
            # Of 200 tokens the second prompt finds three whole blocks of 64.
            labels = '{engine="0",model_name="m"}'
            assert f"vllm:prefix_cache_queries_total{labels} 400.0" in lines
            assert f"vllm:prefix_cache_hits_total{labels} 192.0" in lines
            assert (await client.ask(post("/metrics", {}))).status == 405

    uvloop.run(main())
