"""What tests of every room share."""

from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The directory of recorded sessions, which are not part of the project."""
    directory = _SHARED / "traces" / "real"
    if not directory.is_dir():
        pytest.skip("the recorded sessions are not here")
    return directory
