"""What this client's own error is on this machine, and how much it can honestly drive.

Drives a server that knows when each token left (``simulator/truth_server.py``, by its URL) and
compares. Not for: measuring a server.
"""

import asyncio
import time

import numpy as np
import orjson

from agentx_replay.analysis.client_error import Ceiling, Driven, Load, Stamps, compare
from agentx_replay.endpoint.client import Client
from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.endpoint.requests import Requests, head_start
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.endpoint.url import parse_base_url
from agentx_replay.experiment.open_files import SPARE_FILES, raise_open_files
from agentx_replay.replay.ports import Status
from agentx_replay.units import NS_PER_S

_MESSAGES = b'[{"role":"user","content":"x"}]'
_LEAD_S = 0.2
"""From the first request to the first token: every stream has asked by then."""
_LEAD_A_STREAM_S = 0.001
_FIRST_STREAMS = 256
_MOST_STREAMS = 4096


async def drive(url: str, load: Load) -> Driven:
    """Drive the truth server at ``url`` and compare."""
    settings = EndpointSettings(parse_base_url(url), "truth", timestamps=load.timestamps)
    client = Client(settings)
    try:
        lead_s = _LEAD_S + _LEAD_A_STREAM_S * load.streams
        base_ns = time.monotonic_ns() + round(lead_s * NS_PER_S)
        asked = [
            client.request(str(stream), _request(settings, load, base_ns, stream))
            for stream in range(load.streams)
        ]
        spent = asyncio.create_task(_cpu_between(base_ns, base_ns + load.tokens * load.every_ns))
        responses = await asyncio.gather(*asked)
        cpu_share = await spent
        truth = await _truth(client, settings)
    finally:
        await client.close()
    return compare(
        load,
        seen=[(response.send_ns, response.arrival_ns) for response in responses],
        truth=[truth[stream] for stream in range(load.streams)],
        failed=sum(response.status is not Status.OK for response in responses),
        cpu_share=cpu_share,
        late_events=sum(response.late_events for response in responses),
    )


def _request(settings: EndpointSettings, load: Load, base_ns: int, stream: int) -> bytes:
    due = {"first_token_at_ns": load.first_token_ns(base_ns, stream), "every_ns": load.every_ns}
    requests = Requests(settings, due)
    return requests.build({"X-Request-ID": str(stream)}, load.tokens, _MESSAGES)


async def _cpu_between(from_ns: int, to_ns: int) -> float:
    """Return the share of a core this process used between two instants."""
    await asyncio.sleep((from_ns - time.monotonic_ns()) / NS_PER_S)
    begun = time.process_time_ns(), time.monotonic_ns()
    await asyncio.sleep((to_ns - time.monotonic_ns()) / NS_PER_S)
    return (time.process_time_ns() - begun[0]) / (time.monotonic_ns() - begun[1])


async def _truth(client: Client, settings: EndpointSettings) -> dict[int, Stamps]:
    """Return, by stream, when the server had its request and when each token left."""
    request = head_start(settings, "GET", "/truth") + b"\r\n"
    found: dict[int, Stamps] = {}
    while True:
        exchange = await client.exchange("truth", request, streamed=False)
        body = exchange.body
        told = orjson.loads(body.text if body is not None else b"")["responses"]
        if not told:
            return found
        for each in told:
            sent_ns = np.array(each["sent_ns"], np.int64)
            found[int(each["request_id"])] = (each["received_ns"], sent_ns)


async def find_ceiling(url: str, rate: float, budget_s: float, timestamps: Timestamps) -> Ceiling:
    """Double the streams, in bursts, until they are too many twice or the time is used up; halve
    them first, where the first number is too many already.

    Twice, since what else a machine does in one second makes one trial fail that the next passes.
    """
    until_s = time.monotonic() + budget_s
    most = min(_MOST_STREAMS, raise_open_files() - SPARE_FILES)
    reached, streams = 0, min(_FIRST_STREAMS, most)
    limits: tuple[str, ...] = ()
    while 0 < streams <= most:
        load = Load(streams, rate, 1.0, burst=True, timestamps=timestamps)
        if time.monotonic() + 2 * load.seconds + streams * _LEAD_A_STREAM_S > until_s:
            ended = f"the {budget_s:.0f} s for looking were used up"
            return Ceiling(reached, ended=ended, timestamps=timestamps)
        too_much = (await drive(url, load)).limits and (await drive(url, load)).limits
        if not too_much:
            reached = streams
        limits = too_much or limits
        if limits and (reached or streams == 1):
            return Ceiling(reached, limits, timestamps=timestamps)
        streams = streams // 2 if too_much else streams * 2
    ended = f"no more than {most:,} connections are tried"
    return Ceiling(reached, ended=ended, timestamps=timestamps)
