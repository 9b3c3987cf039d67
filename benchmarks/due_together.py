"""Requests that are due at one instant: how late they leave, with prompts of 60 kB.

    python -m benchmarks.due_together [--requests 256 1024] [--rounds 5] [--write]

Each request is of a play of its own, whose stream says half a second ahead when it is due,
as the replay does; then all are sent, each when its turn comes. The server reads and answers
in a process of its own (``request_side.py``). ``--write`` replaces
``benchmarks/results/due_together.json``.
"""

import argparse
import asyncio
import subprocess
import sys
from functools import partial
from statistics import median

import numpy as np
import uvloop

from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.open_files import raise_open_files
from agentx_replay.experiment.part import quiet_collector
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import Layout, lay_out
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.replay.clock import real_clock
from agentx_replay.replay.ports import Clock, Dispatch, Phase, Response, Status
from agentx_replay.replay.window import PREPARE_AHEAD_NS
from agentx_replay.traces.model import NO_BLOCK, BlockTrie, RecordedRequest, Session
from benchmarks.results_file import write_result

BLOCK, TOKENS = 64, 12_000
"""A token of the built-in vocabulary is a word of 5 bytes."""

MS = 1_000_000


def session() -> Session:
    """Return a session of one request."""
    request = RecordedRequest(
        index=0, recorded_order=0, t_s=0.0, start_s=0.0, duration_s=None, think_time_s=None,
        model="m", input_tokens=TOKENS, output_tokens=1, tip_block=TOKENS // BLOCK - 1,
        block_count=TOKENS // BLOCK, known_blocks=0, first_new_block=0,
    )  # fmt: skip
    blocks = TOKENS // BLOCK
    trie = BlockTrie(np.arange(NO_BLOCK, blocks - 1, dtype=np.int32), np.zeros(blocks, np.int32))
    return Session("one", BLOCK, 0, 0, (request,), trie)


def dispatch(play: PlayComposer, number: int, request: RecordedRequest, due_ns: int) -> Dispatch:
    """Return a play's request as the replay would dispatch it now."""
    return Dispatch(
        request_id=f"r{number}", play_id=f"p{number}", conversation_id=f"s{number}", concurrency=1,
        lane=number, play_number=0, session_id="one", conversation=0, turn=0, request_index=0,
        phase=Phase.WINDOW, intended_start_ns=due_ns, gap_s=0.0, recorded_input_tokens=TOKENS,
        recorded_output_tokens=1, shared_blocks=0, max_tokens=1, prompt=play.prompt(0, request),
    )  # fmt: skip


async def lags_ms(clock: Clock, client: Client, layout: Layout, requests: int) -> list[float]:
    """Return how late each of so many requests of one instant left."""
    (request,) = session().requests()
    wording, keys = chat_wording(builtin_vocabulary()), LevelKeys("benchmark", 1, 1)
    plays = [PlayComposer(layout, wording, keys, lane=n, play_number=0) for n in range(requests)]
    due_ns = clock.now_ns() + 2 * PREPARE_AHEAD_NS
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[Response]] = []
    all_sent: asyncio.Future[None] = loop.create_future()

    def prepare() -> None:
        for number, play in enumerate(plays):
            client.prepare(number, f"s{number}", due_ns, partial(play.compose, 0, request))

    def send() -> None:
        for number, play in enumerate(plays):
            sending = client.send(dispatch(play, number, request, due_ns))
            tasks.append(loop.create_task(sending))
        all_sent.set_result(None)

    clock.call_at(due_ns - PREPARE_AHEAD_NS, prepare)
    clock.call_at(due_ns, send)
    await all_sent
    responses = await asyncio.gather(*tasks)
    assert {each.status for each in responses} == {Status.OK}
    return [(response.send_ns - due_ns) / MS for response in responses]


async def measure(port: int, requests: int, rounds: int) -> dict[str, float]:
    """Measure one number of requests; return and print the medians of the rounds."""
    settings = EndpointSettings(parse_base_url(f"http://127.0.0.1:{port}"), "m")
    layout = lay_out(session(), CHATML)
    with real_clock(asyncio.get_running_loop()) as clock, quiet_collector():
        client = Client(settings)
        # The first makes the connections.
        found = [await lags_ms(clock, client, layout, requests) for _ in range(rounds + 1)]
        await client.close()
    p50, p99 = (median(float(np.percentile(each, p)) for each in found[1:]) for p in (50, 99))
    print(f"{requests} requests of one instant: send lag P50 {p50:.1f} ms, P99 {p99:.1f} ms")
    return {"requests": requests, "send_lag_p50_ms": p50, "send_lag_p99_ms": p99}


def main() -> None:
    """Start the server and measure."""
    parser = argparse.ArgumentParser(description="requests that are due at one instant")
    parser.add_argument("--requests", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="replace the results file")
    arguments = parser.parse_args()
    raise_open_files()
    command = [sys.executable, "-m", "benchmarks.request_side", "--sink"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        loads = [uvloop.run(measure(port, each, arguments.rounds)) for each in arguments.requests]
    finally:
        server.terminate()
        server.communicate()
    if arguments.write:
        result = {"prompt_tokens": TOKENS, "rounds": arguments.rounds, "loads": loads}
        print(write_result("due_together", result))


if __name__ == "__main__":
    main()
