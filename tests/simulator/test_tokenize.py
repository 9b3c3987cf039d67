"""``POST /tokenize`` as vLLM answers it, in the simulator's tokens."""

import uvloop
from raw_http import Answer, connected, get, post

from agentx_replay.simulator.server import ServerConfig, running_server


def ask(request: bytes) -> Answer:
    async def run() -> Answer:
        async with running_server(ServerConfig()) as server, connected(server.port) as client:
            return await client.ask(request)

    return uvloop.run(run())


def test_messages_are_counted_with_their_template() -> None:
    told = ask(post("/tokenize", {"messages": [{"role": "user", "content": "able acid"}]})).json()
    # 3 to open the message, 2 words, 2 to close it, 3 to open the answer
    assert (told["count"], len(told["tokens"])) == (10, 10)
    assert told["max_model_len"] == 1_048_576


def test_text_is_counted_as_it_stands_and_its_tokens_serve_as_a_prompt() -> None:
    told = ask(post("/tokenize", {"prompt": "able acid army"})).json()
    assert told["count"] == 3
    answer = ask(post("/v1/completions", {"prompt": told["tokens"], "max_tokens": 1}))
    assert answer.json()["usage"]["prompt_tokens"] == 3


def test_what_is_no_prompt_is_refused() -> None:
    assert ask(post("/tokenize", {"words": 1})).status == 400
    assert ask(get("/tokenize")).status == 405
