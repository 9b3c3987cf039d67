"""What is known of a run beside its records: what happened to it, and which rules it kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conduct:
    """What happened to the run. ``failure`` says why it ended early or never reached its window
    (warm-up failed, too many failures), None where it did not; ``failure_code`` is the finding's,
    None too where an older version wrote the point.
    """

    interrupted: bool = False
    failure: str | None = None
    failure_code: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How far the run kept its scenario's rules.

    ``comparable`` is the scenario's own word; ``overridden`` names rules changed;
    ``other_corpus``, ``speculative_decoding`` and ``no_server`` (what was measured instead of a
    server) say in words what differs, None where nothing. ``sessions`` is how many were to be
    played and ``max_sessions`` how many the scenario takes, None where it takes all. ``corpus``
    is the fingerprint of the whole corpus. ``requests_too_long`` of ``requests_recorded`` are left
    out as they, or their sessions, do not fit into the server's context. None also where an older
    version wrote the point.
    """

    scenario: str
    comparable: bool
    window_s: float
    overridden: tuple[str, ...] = ()
    sessions_left_out: int = 0
    requests_left_out: int = 0
    other_corpus: str | None = None
    live_history: bool = False
    tool_messages: bool = False
    speculative_decoding: str | None = None
    no_server: str | None = None
    sessions: int | None = None
    max_sessions: int | None = None
    corpus: str | None = None
    requests_too_long: int = 0
    requests_recorded: int | None = None


MAX_TOO_LONG = 0.10
"""Share of the requests above which what the context leaves out makes another corpus."""


def too_long(requests: int, recorded: int | None) -> str | None:
    """Return that a context limit leaves out many of the requests, None if it does not."""
    if not recorded or requests <= MAX_TOO_LONG * recorded:
        return None
    return (
        f"the context limit leaves out {requests:,} of {recorded:,} requests "
        f"({requests / recorded:.0%}): what is left is another, lighter corpus"
    )
