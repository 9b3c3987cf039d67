"""A judgement of what happened before or during a level: its code and its sentence."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a level ended early, or what a person must mind before it begins.

    ``code`` is stable, of small letters and hyphens; ``text`` a clause without a full stop.
    """

    code: str
    text: str
