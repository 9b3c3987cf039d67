"""Taking the block ids out of a trace's JSON as text, before the rest of it is parsed.

Nine tenths of a trace are lists of ids that repeat from request to request. As parsed numbers
they would cost forty bytes each; as text they cost what the file costs, and two of them are
compared at memory speed. What the ids mean is ``block_index.py``'s.
"""

import re
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

IdText = NDArray[np.uint8]
"""The inside of one ``hash_ids`` list, uint8, with a comma after *every* id; empty for no id."""

NO_IDS: IdText = np.empty(0, np.uint8)

_KEY = b'"hash_ids"'
_OPENING = re.compile(rb"\s*:\s*\[\s*")
_COMMA, _BACKSLASH = ord(","), ord("\\")


def parse(raw: bytes) -> tuple[Any, list[IdText]]:
    """Parse JSON, each list under a key ``hash_ids`` replaced by ``[its index]``.

    Returns the parsed value and the texts of the lists, in file order. The insides of the lists
    are not checked here beyond being flat. Raises ``ValueError`` for what is not JSON or has a
    nested list of ids.
    """
    spans = _id_spans(raw)
    try:
        return orjson.loads(_without(raw, spans)), _texts(raw, spans)
    except orjson.JSONDecodeError:
        orjson.loads(raw)  # speaks of the file as it is, if that is what is broken
        raise ValueError("a hash_ids is not a flat list of whole numbers") from None


def _id_spans(raw: bytes) -> list[tuple[int, int]]:
    """Return (start, end) of the inside of each list of ids: ``raw[end]`` is its bracket.

    A quoted name that no backslash precedes and a colon follows is a key wherever it stands:
    inside a JSON string its quotes would be escaped.
    """
    spans = []
    found = raw.find(_KEY)
    while found != -1:
        after = found + len(_KEY)
        opening = _OPENING.match(raw, after)
        if opening and raw[found - 1] != _BACKSLASH:
            end = raw.find(b"]", opening.end())
            if end == -1:
                break
            spans.append((opening.end(), end))
            after = end
        found = raw.find(_KEY, after)
    return spans


def _without(raw: bytes, spans: list[tuple[int, int]]) -> bytes:
    kept: list[bytes] = []
    position = 0
    for index, (start, end) in enumerate(spans):
        kept += (raw[position:start], b"%d" % index)
        position = end
    kept.append(raw[position:])
    return b"".join(kept)


def _texts(raw: bytes, spans: list[tuple[int, int]]) -> list[IdText]:
    """Return the texts as views of one copy of the file, each closing bracket made a comma."""
    copy = np.frombuffer(raw, np.uint8).copy()
    copy[[end for _, end in spans]] = _COMMA
    return [copy[start : end + 1] if end > start else copy[:0] for start, end in spans]
