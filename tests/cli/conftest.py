"""No command waits for a server that is not there."""

import pytest

from agentx_replay.endpoint.asking import Limits


@pytest.fixture(autouse=True)
def _not_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentx_replay.endpoint.asking.LIMITS", Limits(busy_s=0.0))
