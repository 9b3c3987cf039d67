"""What a person is told to run to go on with a run can be run as it stands."""

from pathlib import Path
from typing import Any

import pytest

from agentx_replay.results.going_on import going_on, resuming_command

OUT = Path("my runs/a")


def document(*command: str, **fields: Any) -> dict[str, Any]:
    return {"command": list(command), "levels": [2, 8], "scenario": {"name": "look"}} | fields


@pytest.mark.parametrize(
    ("command", "options"),
    [
        # The default scenario is another where levels are named.
        (("sweep",), "--scenario look --concurrency 2,8"),
        (("sweep", "--scenario", "look"), "--scenario look --concurrency 2,8"),
        (("run", "--gpus", "8"), "--gpus 8 --scenario look --concurrency 2,8"),
        # Levels and place are said once, the levels as they are now.
        (("sweep", "--concurrency", "2", "--out", "x", "--json"), "--json --concurrency 2,8"),
        (("sweep", "--out=x", "--concurrency=2"), "--concurrency 2,8"),
        # What a configuration says is not said again, but for the level of a run.
        (("sweep", "--config", "c.toml"), "--config c.toml"),
        (("run", "--config", "c.toml"), "--config c.toml --concurrency 2,8"),
        (("sweep", "--concurrency", "2", "--body", '{"a": 1}'),
         "--body '{\"a\": 1}' --concurrency 2,8"),
    ],
)  # fmt: skip
def test_the_options_of_before_are_repeated(command: tuple[str, ...], options: str) -> None:
    whole = f"agentx-replay sweep {options} --resume --out 'my runs/a'"
    assert resuming_command(document(*command), OUT) == whole


def test_of_a_run_that_was_resumed_the_last_command_counts() -> None:
    """Only that one has the rules it is played by now, and need not accept them again."""
    last = ["sweep", "--resume", "--override", "seed=7", "--override", "--concurrency", "8"]
    resumed = document("sweep", "--concurrency", "2", starts=3, resumed=[{"command": last}])
    assert resuming_command(resumed, OUT) == (
        "agentx-replay sweep --override seed=7 --concurrency 2,8 --starts 3 --resume "
        "--out 'my runs/a'"
    )


def test_what_was_hidden_has_to_be_put_back() -> None:
    hidden = document("sweep", "--header", "Cookie: ***", "--concurrency", "2")
    assert going_on(hidden, OUT) == (
        "go on with its run, with what was hidden put back for ***:\n"
        "  agentx-replay sweep --header 'Cookie: ***' --concurrency 2,8 --resume --out 'my runs/a'"
    )


def test_a_document_that_lacks_it_all_tells_what_it_can() -> None:
    assert resuming_command({}, Path("a")) == "agentx-replay sweep --resume --out a"
