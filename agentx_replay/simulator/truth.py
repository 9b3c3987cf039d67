"""What the server did, for tests to compare with what a client says it saw.

One record a completion request: when its first byte arrived (the kernel's timestamp), what was
counted and cached, and when each event with tokens was handed to the kernel, on the machine's
monotonic clock. True TTFT is the first of these events less the request's first byte.
"""

from array import array
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

_EVENT_BYTES = 12


@dataclass(slots=True, eq=False)
class ResponseTruth:
    """One response. ``request_id`` is the client's ``X-Request-Id``, empty where it sent none.

    ``sent_ns`` and ``tokens`` have one entry an event with tokens. ``end`` is ``running`` until
    the response is ``complete``, or was ``cut`` by a fault or by the client.
    """

    number: int
    request_id: str
    received_ns: int
    prompt_tokens: int
    max_tokens: int
    cached_tokens: int | None = None
    sent_ns: "array[int]" = field(default_factory=lambda: array("q"))
    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    end: str = "running"

    def sent(self, now_ns: int, tokens: int) -> None:
        self.sent_ns.append(now_ns)
        self.tokens.append(tokens)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, counted from the start with all the events it may get."""
        return 512 + _EVENT_BYTES * self.max_tokens


class TruthLog:
    """The last responses, as many as fit ``capacity_bytes`` (none where it is 0)."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._held_bytes = 0
        self._records: deque[ResponseTruth] = deque()

    def keep(self, record: ResponseTruth) -> ResponseTruth | None:
        """Keep a record, the oldest going for it; return it, None where none is kept."""
        if not self._capacity_bytes:
            return None
        self._records.append(record)
        self._held_bytes += record.size_bytes
        while self._held_bytes > self._capacity_bytes:
            self._held_bytes -= self._records.popleft().size_bytes
        return record

    def take(self, most_bytes: int) -> list[dict[str, Any]]:
        """Return the oldest records, as many as fit ``most_bytes`` in memory and one at least, and
        forget them.
        """
        taken = TruthLog(self._capacity_bytes)
        left_bytes = most_bytes
        while self._records and (left_bytes == most_bytes or left_bytes > 0):
            record = self._records.popleft()
            self._held_bytes -= record.size_bytes
            left_bytes -= record.size_bytes
            taken.keep(record)
        return taken.as_json()

    def as_json(self) -> list[dict[str, Any]]:
        """Return the records kept, oldest first."""
        return [
            asdict(each) | {"sent_ns": each.sent_ns.tolist(), "tokens": each.tokens.tolist()}
            for each in self._records
        ]
