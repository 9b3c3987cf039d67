"""The one error a person can cause: a sentence about what happened, one about what to do.

Everything else that is raised is a programming error and is allowed to surface.
"""


class UsageError(Exception):
    """Bad input or an unusable environment, told in plain words.

    ``what`` says what happened, ``what_to_do`` the way out; ``exit_code`` is 2 for wrong usage
    and 3 for an unusable server.
    """

    def __init__(self, what: str, what_to_do: str, *, exit_code: int = 2) -> None:
        super().__init__(f"{what}; {what_to_do}")
        self.what = what
        self.what_to_do = what_to_do
        self.exit_code = exit_code
