"""The one error a person can cause: a sentence about what happened, one about what to do.

Everything else that is raised is a programming error and is allowed to surface.
"""

from functools import partial
from typing import Any


class UsageError(Exception):
    """Bad input or an unusable environment, told in plain words.

    ``code`` names the error: stable, of small letters and hyphens, of one place in the program.
    ``what`` says what happened, ``what_to_do`` the way out; ``exit_code`` is 2 for wrong usage
    and 3 for an unusable server.
    """

    def __init__(self, code: str, what: str, what_to_do: str, *, exit_code: int = 2) -> None:
        super().__init__(f"{what}; {what_to_do}")
        self.code = code
        self.what = what
        self.what_to_do = what_to_do
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process whole: exceptions pickle only what their base was given."""
        return partial(UsageError, exit_code=self.exit_code), (
            self.code,
            self.what,
            self.what_to_do,
        )


_SHOWN_CHARACTERS = 40


def shown(value: object) -> str:
    """Return a value as a message may show it: one line, cut short, control characters escaped."""
    if isinstance(value, dict | list):
        return f"a{' table' if isinstance(value, dict) else ' list'} of {len(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # Python writes no number of so many digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
