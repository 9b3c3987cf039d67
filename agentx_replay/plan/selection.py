"""Which sessions of a corpus a run may play, and what it leaves out, counted by reason."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agentx_replay.errors import UsageError
from agentx_replay.traces.model import Corpus, Entry, RecordedRequest, Session, Subagent
from agentx_replay.traces.statistics import duplicate_families

ContextPolicy = Literal["session", "request"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Sessions and requests left out for one reason.

    ``cause``: a whole ``session`` cannot be played, single ``request``s do not fit, a session is a
    ``duplicate`` of another, or the ``scenario`` takes no more sessions.
    """

    cause: Literal["session", "request", "duplicate", "scenario"]
    reason: str
    sessions: int
    requests: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The eligible sessions in corpus order, as they will be played, and what was left out.

    ``sessions`` holds every request that is played; ``sources`` the same sessions with all that
    was recorded, which is what their prompts are composed from.
    """

    sessions: tuple[Session, ...]
    sources: tuple[Session, ...]
    left_out: tuple[LeftOut, ...]


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
) -> Selection:
    """Take the first ``max_sessions`` sessions that fit ``max_context`` tokens (None: any).

    Policy ``session`` leaves out a session with any request that does not fit; ``request`` leaves
    out those requests alone. A session that has no request of its main stream cannot be played.
    ``keep_one_of_duplicates`` takes the first of each family of near-duplicates that fit. Raises
    ``UsageError`` where nothing is left.
    """

    def fits(request: RecordedRequest) -> bool:
        return max_context is None or context_tokens(request) <= max_context

    eligible: list[Session] = []
    sources: list[Session] = []
    headless: list[Session] = []
    too_large: list[Session] = []
    trimmed = trimmed_requests = 0
    for session in corpus.sessions:
        played = session if policy == "session" else _only(session, fits)
        if not _has_main(session):
            headless.append(session)
            continue
        if not _has_main(played) or not all(map(fits, played.requests())):
            too_large.append(session)
            continue
        dropped = len(session.requests()) - len(played.requests())
        trimmed += bool(dropped)
        trimmed_requests += dropped
        eligible.append(played)
        sources.append(session)
    if not eligible:
        raise _nothing_fits(corpus, max_context)
    repeated = _repeats(sources) if keep_one_of_duplicates else frozenset()
    copies = [session for session in sources if session.id in repeated]
    eligible = [session for session in eligible if session.id not in repeated]
    sources = [session for session in sources if session.id not in repeated]
    beyond = eligible[max_sessions:] if max_sessions is not None else []
    reasons = (
        LeftOut("session", "no request outside subagents", len(headless), _count(headless)),
        LeftOut(
            "session", f"needs more than {max_context} tokens", len(too_large), _count(too_large)
        ),
        LeftOut("request", f"requests over {max_context} tokens", trimmed, trimmed_requests),
        LeftOut("duplicate", "near-duplicates of another", len(copies), _count(copies)),
        LeftOut("scenario", f"after the first {max_sessions}", len(beyond), _count(beyond)),
    )
    kept = len(eligible) - len(beyond)
    return Selection(
        tuple(eligible[:kept]),
        tuple(sources[:kept]),
        tuple(reason for reason in reasons if reason.requests),
    )


def _repeats(sessions: Sequence[Session]) -> frozenset[str]:
    """Return the ids of all but the first of each family of near-duplicates."""
    return frozenset(name for family in duplicate_families(sessions) for name in family[1:])


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
    needs = [max(map(context_tokens, s.requests()), default=0) for s in corpus.sessions]
    if not any(needs):
        return UsageError(
            "corpus-without-request",
            f"corpus {corpus.name} holds no request",
            "give another --traces",
        )
    if not any(map(_has_main, corpus.sessions)):
        return UsageError(
            "corpus-of-subagents-alone",
            f"corpus {corpus.name} holds no request outside subagents",
            "give another --traces",
        )
    return UsageError(
        "no-session-fits",
        f"none of the {len(needs)} sessions of {corpus.name} fits {max_context} tokens "
        f"(the smallest needs {min(filter(None, needs))})",
        "serve a larger context, or use --max-context-policy request",
        exit_code=3,
    )
