"""What a person is told to run to go on with a run can be run as it stands."""

from pathlib import Path
from typing import Any

from agentx_replay.results.resume_command import going_on, options_hidden, resume_command


def test_the_command_names_the_run_and_no_more() -> None:
    whole = "agentx-replay sweep --resume --out 'my runs/a'"
    assert resume_command(Path("my runs/a")) == whole
    assert going_on({}, Path("my runs/a")).endswith(f":\n  {whole}")


def test_what_was_hidden_has_to_be_typed_again() -> None:
    settings: dict[str, Any] = {"header": ["Cookie: ***"], "ca_file": "(not kept)", "body": "{}"}
    document = {"settings": settings}
    assert options_hidden(document) == ["header", "ca-file"]
    clause, command = going_on(document, Path("a")).splitlines()
    assert "--header and --ca-file" in clause
    assert command == "  agentx-replay sweep --resume --out a"
