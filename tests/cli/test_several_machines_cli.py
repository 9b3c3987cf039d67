"""``--ray`` and ``--nodes`` as far as they go without a cluster."""

import subprocess
import sys

import pytest
from command_line import finished, refusal, told
from refusals import refuses

from agentx_replay.target import refuse_unprotected

RAY = ("sweep", "--ray", "127.0.0.1:1", "--url", "http://127.0.0.1:1")
TOKEN, TLS = {"RAY_AUTH_MODE": "token"}, {"RAY_USE_TLS": "1"}


@pytest.mark.parametrize(
    ("environment", "secret", "code"),
    [
        ({}, False, "ray-without-token"),
        ({"RAY_AUTH_MODE": "disabled"}, False, "ray-without-token"),
        (TOKEN, False, None),
        (TOKEN, True, "ray-secret-in-clear"),
        (TOKEN | TLS, True, None),
    ],
)
def test_a_cluster_that_anybody_may_use_or_hear_is_refused(
    environment: dict[str, str], secret: bool, code: str | None
) -> None:
    if code is None:
        refuse_unprotected("HEAD:6390", environment, secret=secret)
    else:
        with refuses(code):
            refuse_unprotected("HEAD:6390", environment, secret=secret)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (RAY, "ray-without-token"),
        (("sweep", "--ray", "127.0.0.1:1"), "ray-without-server"),
        (("sweep", "--nodes", "2"), "nodes-without-ray"),
        ((*RAY, "--virtual"), "virtual-with-url"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    arguments: tuple[str, ...], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert f"[{code}]" in refusal(*arguments)


def test_nothing_of_ray_is_imported_without_it() -> None:
    seen = "import agentx_replay.cli.measure, agentx_replay.experiment.worker, sys"
    done = subprocess.run(
        [sys.executable, "-c", f"{seen}; print('ray' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"


def test_plan_says_what_a_level_asks_of_each_machine() -> None:
    small, large = told("plan", "--nodes", "3", "--concurrency", "2,64")["machines"]
    assert (small["machines"], small["workers"]) == (2, 1)
    assert (large["machines"], large["workers"]) == (3, 1)
    assert (
        "64 agents on 3 machines: at most 22 lanes"
        in finished("plan", "--nodes", "3", "--concurrency", "64").stdout
    )
