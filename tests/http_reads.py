"""HTTP responses from reads that were made in time, one a nanosecond."""

from stamped_stream import prompt_reads

from agentx_replay.endpoint.http_response import HttpResponse

NEVER_NS = 2**63


def parsed(*reads: bytes, streamed: bool = False) -> HttpResponse:
    """Return a response, parsed as far as its reads go."""
    times = prompt_reads(list(range(len(reads))))
    response = HttpResponse(times, streamed=streamed, keeps_answer=False)
    response.add(reads)
    assert not response.run(NEVER_NS)
    return response
