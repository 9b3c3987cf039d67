"""Whether a trace holds text: strings that are no name or kind that the format has.

A recording is shared for its lengths. Names and kinds are short and without blanks; all else that a
string holds, in a known field or another, may be what a person or an agent wrote.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agentx_replay.errors import UsageError
from agentx_replay.traces.files import raw_sessions
from agentx_replay.traces.id_text import parse

_NAMES = frozenset(
    (
        "id", "hash_id_scope", "models", "model", "type", "stop", "status", "agent_id",
        "subagent_type", "input_types", "output_types",
    )
)  # fmt: skip
_MOST_NAME_CHARACTERS = 80


def texts_in(path: Path) -> Counter[str]:
    """Return how many strings of the sessions at ``path`` are text, by the field they stand in."""
    found: Counter[str] = Counter()
    for _, raw in raw_sessions(path):
        if isinstance(raw, UsageError):
            continue
        try:
            value, _ = parse(raw)
        except ValueError:
            continue
        found.update(_texts(value, ()))
    return found


def _texts(value: object, place: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*place, key))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, place)
    elif isinstance(value, str) and not _is_name(value, place):
        yield ".".join(place)


def _is_name(value: str, place: tuple[str, ...]) -> bool:
    is_in_name_field = {*place} <= {"requests", *_NAMES} and bool(place) and place[-1] in _NAMES
    is_short = len(value) <= _MOST_NAME_CHARACTERS and not any(map(str.isspace, value))
    return is_in_name_field and is_short
