"""The ports of the closed loop: what it needs of time, of a server and of a recorder.

The loop imports none of their implementations. Values that cross a port are frozen: a
``Dispatch`` goes out, a ``Response`` comes back, both go to the recorder.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentx_replay.prompts.prompt import Answer, Prompt
from agentx_replay.traces.model import RecordedRequest


def _no_arrivals() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


class Phase(StrEnum):
    """Which part of a run a request belongs to."""

    PRIMER = "primer"
    CACHE_PRESSURE = "cache_pressure"
    WINDOW = "window"


class Status(StrEnum):
    """How a request ended. Exactly one, always."""

    OK = "ok"
    LENGTH_MISMATCH = "length_mismatch"
    FAILED = "failed"
    OVERFLOW = "overflow"
    CUT = "cut"


class ErrorCategory(StrEnum):
    """Why a request failed."""

    CONNECT = "connect"
    TLS = "tls"
    RESET = "reset"
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    BAD_REQUEST = "bad_request"
    SERVER_ERROR = "server_error"
    HTTP = "http"
    STREAM_ERROR = "stream_error"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    CONTEXT_OVERFLOW = "context_overflow"


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch:
    """One request as the protocol decided to send it; docs/records.md describes what is recorded.

    ``play_id`` names one live replay of a session (level, lane, play number), ``conversation_id``
    one of its conversations, ``parent_conversation_id`` the one that spawned it (None: the main
    conversation). ``shared_blocks`` is how many leading blocks the recorded graph says were already
    in the play; ``kept_blocks`` and ``conversation_kept_blocks`` are how many the play, and the
    conversation's last prompt, had really sent.
    """

    request_id: str
    play_id: str
    conversation_id: str
    concurrency: int
    lane: int
    play_number: int
    session_id: str
    conversation: int
    turn: int
    request_index: int
    phase: Phase
    intended_start_ns: int
    gap_s: float
    recorded_input_tokens: int
    recorded_output_tokens: int
    shared_blocks: int
    max_tokens: int
    prompt: Prompt
    play_request: int = 0
    kept_blocks: int = 0
    conversation_kept_blocks: int = 0
    skipped_ns: int = 0
    parent_conversation_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """What came back, timestamped on the clock of the run, in ns; docs/records.md describes what is
    recorded. A timestamp can be late and never early.

    ``arrival_ns`` (int64) has one entry a *token event* in order of arrival; ``arrival_tokens``
    (int32, same shape) the tokens in each, or None if the server does not tell;
    ``event_text_bytes`` (int32, same shape) the length of each event's text in UTF-8, only if
    completion tokens exceed token events and no usage tells where they came. ``connect_start_ns``
    and ``connected_ns`` are of the connection that was made for this request; None on one that had
    been used before. ``first_token_uncertainty_ns``, ``last_token_uncertainty_ns`` and
    ``send_uncertainty_ns`` are how far off the client's own fault may put a timestamp. ``answer``
    is what was said, if that is fed back and the response is sound.
    """

    status: Status
    send_ns: int
    end_ns: int
    sent_ns: int | None = None
    connect_start_ns: int | None = None
    connected_ns: int | None = None
    first_byte_ns: int | None = None
    arrival_ns: NDArray[np.int64] = field(default_factory=_no_arrivals)
    arrival_tokens: NDArray[np.int32] | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    http_status: int | None = None
    error_category: ErrorCategory | None = None
    error_text: str | None = None
    retries: int = 0
    replica: int = 0
    answer: Answer | None = None
    first_token_uncertainty_ns: int = 0
    last_token_uncertainty_ns: int = 0
    send_uncertainty_ns: int = 0
    late_events: int = 0
    gathered_reads: int | None = None
    event_text_bytes: NDArray[np.int32] | None = None
    text_pieces: int | None = None
    reasoning_tokens: int | None = None
    reasoning_pieces: int | None = None

    @property
    def first_token_ns(self) -> int | None:
        return int(self.arrival_ns[0]) if len(self.arrival_ns) else None

    @property
    def last_token_ns(self) -> int | None:
        return int(self.arrival_ns[-1]) if len(self.arrival_ns) else None


def recorded_status(dispatch: Dispatch, response: Response) -> Status:
    """Return the status to record: ok is a length mismatch if other tokens came than asked."""
    told = response.completion_tokens
    if response.status is Status.OK and told is not None and told != dispatch.max_tokens:
        return Status.LENGTH_MISMATCH
    return response.status


class TimerHandle(Protocol):
    """A pending call that can be taken back."""

    def cancel(self) -> None:
        """Take the call back; harmless when it was made already."""


class Clock(Protocol):
    """Monotonic time in ns, and calls at an instant that are never early."""

    def now_ns(self) -> int:
        """Return the time now."""

    def call_at(self, when_ns: int, call: Callable[[], None]) -> TimerHandle:
        """Arrange for ``call`` at ``when_ns`` or as soon after as can be."""


class PromptSource(Protocol):
    """The prompts of one play."""

    def prompt(self, conversation: int, request: RecordedRequest) -> Prompt:
        """Return the prompt of a request that is about to be sent on ``conversation``."""

    def compose(self, conversation: int, request: RecordedRequest) -> int:
        """Make the bytes of a prompt that is due soon, where they are known by now; return
        how many there are.
        """

    def answered(self, request_index: int, answer: Answer | None) -> None:
        """Say what was answered to a request of the play, by its place in the session; None where
        it ended without an answer that can be said.
        """

    def forget(self, conversation: int) -> None:
        """Say that the conversation has ended: its text may go."""


class Endpoint(Protocol):
    """A server that answers requests. A failure is a ``Response``, never an exception."""

    async def send(self, dispatch: Dispatch) -> Response:
        """Send one request and return when its response has ended, in whatever way."""

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Callable[[], int]
    ) -> None:
        """Say that a conversation of ``lane`` will send its next request at ``due_ns``, or earlier
        where idle time is skipped: time to connect, where that has to be done, and to ``compose``
        its prompt, which returns how many bytes are then kept. Never fails.
        """

    def cut(self) -> None:
        """End every response in flight now: each ``send`` returns ``CUT`` with what arrived."""

    def conversation_ended(self, conversation_id: str) -> None:
        """Say that no further request of the conversation will come: its connection may close."""

    async def close(self) -> None:
        """Close every connection."""


class Recorder(Protocol):
    """Where records go. Both calls append and return; they never wait for a disk."""

    def record(self, dispatch: Dispatch, response: Response) -> None:
        """Keep one response."""

    def record_play(self, play: "PlayRecord") -> None:
        """Keep one play, when its tree has drained or the run ends."""


@dataclass(frozen=True, slots=True)
class PlayRecord:
    """One play from start to end; ``end_ns`` is None where the run ended before it did."""

    play_id: str
    concurrency: int
    lane: int
    play_number: int
    session_id: str
    t_star_s: float | None
    start_ns: int
    end_ns: int | None
    requests_sent: int
    requests_skipped: int
    system_skipped_s: float
    session_skipped_s: float
