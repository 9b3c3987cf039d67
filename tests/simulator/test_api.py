"""What the server answers at once: models, tokenize, metrics, refusals."""

from typing import Any

import numpy as np
import pytest
import uvloop
from raw_http import Answer, connected, get, post
from refusals import refuses

from agentx_replay.simulator.api import metrics_page
from agentx_replay.simulator.engine import Engine, EngineModel
from agentx_replay.simulator.server import ServerConfig, running_server

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
QUICK = EngineModel(step_base_ms=1, max_model_len=10_000)


def asked(*requests: bytes, engine: EngineModel = QUICK) -> list[Answer]:
    """Return the answers of one server to requests on one connection."""

    async def run() -> list[Answer]:
        async with (
            running_server(ServerConfig(engine=engine)) as server,
            connected(server.port) as client,
        ):
            return [await client.ask(request) for request in requests]

    return uvloop.run(run())


def chat(words: str = "two words", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}], **more}


def test_the_model_and_its_context_are_told_by_a_server_that_names_itself() -> None:
    upgrade = get("/health", "connection: upgrade", "upgrade: h2c")  # declined by answering
    answer, health, declined = asked(get("/v1/models"), get("/health?verbose=1"), upgrade)
    (model,) = answer.json()["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("simulated", "model", 10_000)
    assert answer.headers["server"] == "agentx-replay-simulator/0.1.0"
    assert (answer.status, health.status, declined.status) == (200, 200, 200)


REFUSALS = [
    (post(CHAT, chat(model="other")), 404),
    (post("/v2/chat", chat()), 404),
    (get("/v1/nothing"), 404),
    (get(CHAT), 405),
    (post("/v1/models", b""), 405),
    (post("/metrics", {}), 405),
    (get("/tokenize"), 405),
    (post("/tokenize", {"words": 1}), 400),
    (post(CHAT, b"{not json"), 400),
    (post(CHAT, b"[]"), 400),
    (post(CHAT, b""), 400),
    (post(CHAT, {"messages": []}), 400),
    (post(CHAT, {"messages": "hello"}), 400),
    (post(CHAT, {"messages": ["hello"]}), 400),
    (post(CHAT, chat(tools={"name": "one"})), 400),
    (post(CHAT, chat(n=2)), 400),
    (post(CHAT, chat(max_tokens=0)), 400),
    (post(CHAT, chat(max_tokens="9")), 400),
    (post(CHAT, chat(max_tokens=True)), 400),
    (post(CHAT, chat(stream_options=[1])), 400),
    (post(TEXT, {}), 400),
    (post(TEXT, {"prompt": ""}), 400),
    (post(TEXT, {"prompt": ["a", "b"]}), 400),
    (post(TEXT, {"prompt": [1, -1]}), 400),
    (post(TEXT, {"prompt": [1, 1.5]}), 400),
    (b"NOT HTTP AT ALL\r\n\r\n", 400),
]


def test_what_cannot_be_served_is_refused_with_a_reason_and_the_next_is_served() -> None:
    answers = asked(*(request for request, _ in REFUSALS))
    assert [answer.status for answer in answers] == [status for _, status in REFUSALS]
    for answer in answers:
        error = answer.json()["error"]
        assert error["code"] == answer.status
        assert error["message"]


def test_a_prompt_over_the_context_is_refused_as_vllm_does() -> None:
    (answer,) = asked(post(CHAT, chat(max_tokens=11)), engine=EngineModel(max_model_len=20))
    error = answer.json()["error"]
    assert answer.status == error["code"] == 400
    assert (error["type"], error["param"]) == ("BadRequestError", "input_tokens")
    assert "context length is 20" in error["message"]


def test_messages_are_counted_with_their_template_and_text_as_it_stands() -> None:
    messages = {"messages": [{"role": "user", "content": "able acid"}]}
    talk, text = asked(post("/tokenize", messages), post("/tokenize", {"prompt": "able acid army"}))
    # 3 to open the message, 2 words, 2 to close it, 3 to open the answer
    assert (talk.json()["count"], len(talk.json()["tokens"])) == (10, 10)
    assert (text.json()["count"], text.json()["max_model_len"]) == (3, 10_000)
    (answer,) = asked(post(TEXT, {"prompt": text.json()["tokens"], "max_tokens": 1}))
    assert answer.json()["usage"]["prompt_tokens"] == 3


# --- metrics: blocks of 10 tokens, 20 of them; one sequence at a time ----------------------------

SMALL = EngineModel(block_tokens=10, cache_blocks=20, max_running=1, max_model_len=200)


def told(engine: Engine) -> dict[str, float]:
    lines = metrics_page(engine, "m").decode().splitlines()
    values = [line.split() for line in lines if not line.startswith("#")]
    assert all(name.endswith('{engine="0",model_name="m"}') for name, _ in values)
    return {name.partition("{")[0].removeprefix("vllm:"): float(value) for name, value in values}


def figures(
    running: int, waiting: int, usage: float, looked_up: int, found: int
) -> dict[str, float]:
    return {
        "num_requests_running": running, "num_requests_waiting": waiting,
        "kv_cache_usage_perc": usage, "num_preemptions_total": 0,
        "prefix_cache_queries_total": looked_up, "prefix_cache_hits_total": found,
    }  # fmt: skip


def test_what_runs_waits_and_is_held_is_told_and_what_is_merely_kept_is_free() -> None:
    engine = Engine(SMALL)
    assert told(engine) == figures(0, 0, 0, 0, 0)
    engine.submit(0, np.array([1, 2, 3], np.uint64), 35, 5)  # four blocks with its output
    engine.submit(0, np.array([1, 2, 4], np.uint64), 35, 15)  # shares two blocks, and needs five
    assert told(engine) == figures(1, 1, 4 / 20, 35, 0)
    while engine.waiting:
        engine.complete_step()
    # The first's third block is kept, and free.
    assert told(engine) == figures(1, 0, 5 / 20, 70, 20)
    while engine.running:
        engine.complete_step()
    assert told(engine) == figures(0, 0, 0, 70, 20)


def test_a_models_name_cannot_break_the_page() -> None:
    page = metrics_page(Engine(SMALL), 'a"b\\c\nd').decode()
    assert 'model_name="a\\"b\\\\c\\nd"} 0.0' in page
    assert len(page.splitlines()) == 18  # six metrics, each with its help and its type


def test_the_page_is_served_as_prometheus_text() -> None:
    prompt = post(TEXT, {"prompt": list(range(200)), "max_tokens": 1})
    *_, answer = asked(prompt, prompt, get("/metrics"))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    # Of 200 tokens the second prompt finds three whole blocks of 64.
    labels = '{engine="0",model_name="simulated"}'
    assert f"vllm:prefix_cache_queries_total{labels} 400.0" in lines
    assert f"vllm:prefix_cache_hits_total{labels} 192.0" in lines


@pytest.mark.parametrize("prompt", ["one two three", [5, 6, 7], ["one two three"], [[5, 6, 7]]])
def test_a_text_prompt_is_text_or_token_ids_without_a_template(prompt: object) -> None:
    (answer,) = asked(post(TEXT, {"prompt": prompt, "max_tokens": 1}))
    assert answer.json()["usage"]["prompt_tokens"] == 3
    assert answer.json()["choices"][0]["text"] == " word"


def test_a_port_that_cannot_be_is_refused() -> None:
    with refuses("port-out-of-range", "70000"):
        ServerConfig(port=70_000)
