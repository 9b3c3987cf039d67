"""What a server may do wrong, or merely differently, as values: to test what a client survives.

A ``FaultPlan`` is asked once for each completion request. Its answer is a ``Fault``: a ``Shape``,
how the stream differs from the default one while being a whole answer, and at most one ``Break``,
what happens to it and where. How they are carried out is in ``wire.py`` (bytes) and ``events.py``
(events). A response that is not streamed knows only breaks before the headers.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, Protocol


class Act(Enum):
    """What happens at the point of a break."""

    RESET = auto()
    """The connection is reset (RST), what was not yet sent is lost."""
    CLOSE = auto()
    """The connection is closed in the middle (FIN)."""
    STALL = auto()
    """Nothing is sent for ``stall_s``, then everything that waited, and the rest."""
    STATUS = auto()
    """Another HTTP status is answered; only ``BEFORE_HEADERS``."""
    ERROR_EVENT = auto()
    """An ``event: error``, and the response ends."""
    ERROR_OBJECT = auto()
    """An error object as data, ``[DONE]``, and the response ends, all inside a 200."""
    GARBAGE = auto()
    """An event whose data is not JSON takes the place of the rest, and the response ends."""


class Point(Enum):
    """Where in the response it happens."""

    BEFORE_HEADERS = auto()
    BEFORE_FIRST_TOKEN = auto()
    BETWEEN_EVENTS = auto()
    """After ``after_events`` events with tokens, where another follows."""
    INSIDE_EVENT = auto()
    """Half way through the event with tokens that comes after ``after_events`` others."""
    AFTER_LAST_TOKEN = auto()
    """Before the usage or ``[DONE]``, whichever comes first."""
    AFTER_DONE = auto()
    """When all is sent but the end of the HTTP body."""


@dataclass(frozen=True, slots=True)
class Break:
    """One thing that goes wrong. ``retry_after_s`` goes with a ``status``."""

    act: Act
    at: Point
    after_events: int = 1
    stall_s: float = 0.0
    status: int = 503
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """How a stream may differ and still be a whole answer.

    ``role``: an event of its own with the first token, an event of its own at once, an event of
    its own with null content, or inside the first token's event. ``delta``: where the words are;
    ``empty`` means empty content for every token. ``usage``: in a last event where asked for,
    never, or in every event. ``steps_per_event`` merges the tokens of several steps (the first
    event's too). ``events_per_write`` joins events into one write; ``sheared`` ends every write
    in the middle of an event. ``tokens_withheld`` stops that many tokens short of what was asked.
    ``odd_fields`` adds fields no specification knows and a ``created`` in the year 2100.
    """

    role: Literal["first_token", "at_once", "null_content", "merged"] = "first_token"
    delta: Literal["content", "reasoning_content", "reasoning", "empty"] = "content"
    usage: Literal["asked", "never", "every"] = "asked"
    done: bool = True
    line_end: Literal["\n", "\r\n"] = "\n"
    comments: bool = False
    steps_per_event: int = 1
    events_per_write: int = 1
    sheared: bool = False
    gzip: bool = False
    tokens_withheld: int = 0
    odd_fields: bool = False


PLAIN = Shape()
"""The default stream."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to be different about one response."""

    shape: Shape = PLAIN
    breaks: Break | None = None


class FaultPlan(Protocol):
    """Says what is to be different about each completion request."""

    def on_request(self, number: int, body: bytes) -> Fault | None:
        """Return the fault of request ``number`` (from 0, in order of arrival), None for none."""


class NoFaults:
    """The plan of a server that works."""

    def on_request(self, number: int, body: bytes) -> Fault | None:  # noqa: ARG002
        """Return None."""
        return None
