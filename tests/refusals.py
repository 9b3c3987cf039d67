"""What a person can cause, expected by its code and the values that it must name."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentx_replay.errors import UsageError


@contextmanager
def refuses(code: str, *values: str) -> Iterator[pytest.ExceptionInfo[UsageError]]:
    """Expect a ``UsageError`` of this code whose sentences hold every one of ``values``."""
    with pytest.raises(UsageError) as caught:
        yield caught
    assert caught.value.code == code
    told = f"{caught.value.what}; {caught.value.what_to_do}"
    assert [value for value in values if value not in told] == []
