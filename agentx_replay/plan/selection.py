"""Which sessions of a corpus a run may play, and what it leaves out, counted by reason."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from agentx_replay.errors import UsageError
from agentx_replay.scenario import Order
from agentx_replay.traces.dealing import balanced_order, input_and_requests
from agentx_replay.traces.model import Corpus, Entry, RecordedRequest, Session, Subagent
from agentx_replay.traces.statistics import duplicate_families

ContextPolicy = Literal["session", "request"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Sessions and requests left out for one reason.

    ``cause``: a whole ``session`` cannot be played or is ``too_large``, single ``request``s do not
    fit, a session is a ``duplicate`` of another, or the ``scenario`` takes no more sessions.
    """

    cause: Literal["session", "too_large", "request", "duplicate", "scenario"]
    reason: str
    sessions: int
    requests: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The eligible sessions in their order, as they will be played, and what was left out.

    ``sessions`` holds every request that is played; ``sources`` the same sessions with all that
    was recorded, which is what their prompts are composed from.
    """

    sessions: tuple[Session, ...]
    sources: tuple[Session, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def requests_too_long(self) -> int:
        """How many requests are left out since they, or others of their session, do not fit."""
        too_long = ("too_large", "request")
        return sum(out.requests for out in self.left_out if out.cause in too_long)


def context_tokens(request: RecordedRequest) -> int:
    """Return the context a request needs: its prompt and at least one token of output."""
    return request.input_tokens + max(1, request.output_tokens)


def select_sessions(
    corpus: Corpus,
    *,
    max_context: int | None,
    policy: ContextPolicy = "session",
    max_sessions: int | None = None,
    keep_one_of_duplicates: bool = False,
    order: Order = "corpus",
) -> Selection:
    """Take the first ``max_sessions`` sessions that fit ``max_context`` tokens (None: any).

    Policy ``session`` leaves out a session with any request that does not fit; ``request`` leaves
    out those requests alone. A session that has no request of its main conversation cannot be
    played. ``keep_one_of_duplicates`` takes the first of each family of near-duplicates that fit.
    ``balanced`` deals those that are left so that the first of them are like all (``dealing.py``).
    Raises ``UsageError`` if nothing is left.
    """

    def fits(request: RecordedRequest) -> bool:
        return max_context is None or context_tokens(request) <= max_context

    headless: list[Session] = []
    too_large: list[Session] = []
    eligible: list[tuple[Session, Session]] = []
    for source in corpus.sessions:
        played = source if policy == "session" else _only(source, fits)
        if not _has_main(source):
            headless.append(source)
        elif not _has_main(played) or not all(map(fits, played.requests())):
            too_large.append(source)
        else:
            eligible.append((source, played))
    if not eligible:
        raise _nothing_fits(corpus, max_context)
    families = duplicate_families([s for s, _ in eligible]) if keep_one_of_duplicates else ()
    copies = {name for family in families for name in family[1:]}
    unlike = [pair for pair in eligible if pair[0].id not in copies]
    if order == "balanced":
        dealt = balanced_order([input_and_requests(played) for _, played in unlike])
        unlike = [unlike[place] for place in dealt]
    kept = unlike[: len(unlike) if max_sessions is None else max_sessions]
    trimmed = [pair for pair in eligible if _count(pair[:1]) > _count(pair[1:])]
    reasons = (
        _left_out("session", "no request outside subagents", headless),
        _left_out("too_large", f"needs more than {max_context} tokens", too_large),
        LeftOut(
            "request",
            f"requests over {max_context} tokens",
            len(trimmed),
            _count(s for s, _ in trimmed) - _count(p for _, p in trimmed),
        ),
        _left_out(
            "duplicate", "near-duplicates of another", [s for s, _ in eligible if s.id in copies]
        ),
        _left_out(
            "scenario", f"after the first {max_sessions}", [p for _, p in unlike[len(kept) :]]
        ),
    )
    return Selection(
        sessions=tuple(played for _, played in kept),
        sources=tuple(source for source, _ in kept),
        left_out=tuple(reason for reason in reasons if reason.requests),
    )


def _left_out(
    cause: Literal["session", "too_large", "duplicate", "scenario"],
    reason: str,
    sessions: list[Session],
) -> LeftOut:
    return LeftOut(cause, reason, len(sessions), _count(sessions))


def _count(sessions: Iterable[Session]) -> int:
    return sum(len(session.requests()) for session in sessions)


def _has_main(session: Session) -> bool:
    return any(isinstance(entry, RecordedRequest) for entry in session.entries)


def _only(session: Session, fits: Callable[[RecordedRequest], bool]) -> Session:
    entries: list[Entry] = []
    for entry in session.entries:
        if isinstance(entry, Subagent):
            kept = tuple(filter(fits, entry.requests))
            entries.append(dataclasses.replace(entry, requests=kept))
        elif fits(entry):
            entries.append(entry)
    return dataclasses.replace(session, entries=tuple(entries))


def _nothing_fits(corpus: Corpus, max_context: int | None) -> UsageError:
    if not any(map(_has_main, corpus.sessions)):
        return UsageError(
            "corpus-of-subagents-alone",
            f"corpus {corpus.name} holds no request outside subagents",
            "give another --traces",
        )
    smallest = min(max(map(context_tokens, s.requests()), default=0) for s in corpus.sessions)
    return UsageError(
        "no-session-fits",
        f"none of the {len(corpus.sessions)} sessions of {corpus.name} fits {max_context} tokens "
        f"(the smallest needs {smallest})",
        "serve a larger context, or use --max-context-policy request",
        exit_code=3,
    )
