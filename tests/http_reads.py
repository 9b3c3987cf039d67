"""HTTP responses from reads that were made in time, one a nanosecond."""

from agentx_replay.endpoint.http_response import HttpResponse
from agentx_replay.endpoint.poll_times import PollInterval
from agentx_replay.endpoint.timing import ReadTimes

NEVER_NS = 2**63


def read_times(reads: int) -> ReadTimes:
    """Return the times of so many reads."""
    interval = PollInterval(floor_ns=0, offset_ns=0, end_ns=0)
    return ReadTimes(False, 0, list(range(reads)), [interval] * reads)


def parsed(*reads: bytes, streamed: bool = False) -> HttpResponse:
    """Return a response, parsed as far as its reads go."""
    response = HttpResponse(read_times(len(reads)), streamed=streamed, keeps_answer=False)
    response.add(reads)
    assert not response.run(NEVER_NS)
    return response
