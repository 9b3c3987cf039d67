"""What ``check`` prints, word for word."""

from dataclasses import replace

import pytest
from driven_load import driven
from golden_files import Goldens

from agentx_replay.analysis.client_error import Ceiling, Driven
from agentx_replay.reason import Reason
from agentx_replay.report.check_lines import (
    client_line,
    client_lines,
    driven_lines,
    invalidating,
    server_lines,
)

FACTS = {
    "url": "http://host:8000/v1",
    "server": "uvicorn",
    "model": "m",
    "max_model_len": 131072,
    "usage_reported": True,
    "cached_tokens_reported": False,
    "ignore_eos": True,
    "keep_alive_s": 5.0,
    "max_tokens_field": "max_tokens",
}
DRIVEN = driven(streams=64, planned_tokens_per_s=3200.0, tokens_per_s=3190.0)


def test_a_servers_readiness(goldens: Goldens) -> None:
    untold = FACTS | {"server": None, "max_model_len": None, "keep_alive_s": None}
    warning = Reason("server-without-cached-tokens", "mind this")
    lines = [*server_lines(FACTS, (warning,)), *server_lines(untold, ())]
    goldens.check_text("words/server", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "code",
    [
        "server-without-usage",
        "server-usage-odd",
        "server-ends-early",
        "server-without-streaming",
        "server-cuts-prompts",
    ],
)
def test_a_server_on_which_no_run_is_valid_fails_with_a_remedy(code: str) -> None:
    wrong = Reason(code, "wrong")
    assert invalidating((wrong, Reason("server-without-cached-tokens", "slight"))) == [wrong]
    *_, verdict = server_lines(FACTS, (wrong,))
    assert verdict.startswith("  FAIL: wrong; ")


def test_the_clients_own_error(goldens: Goldens) -> None:
    """By the kernel, and by the process beside it; a load that was too much, which has no errors to
    tell; a look that ended before anything was too much.
    """
    process = replace(DRIVEN, timestamps="process", itl_error=0.03, late_event_share=0.2)
    failed = Driven(64, False, 3200.0, 3190.0, 12.34, 0.04, failed=2)
    too_much = ("the server of this check sent 52,000 of 102,400 tok/s",)
    ended = Ceiling(512, ended="the 20 s for looking were used up", timestamps="kernel")
    lines = [
        client_line("kernel"),
        *driven_lines(DRIVEN),
        *driven_lines(process),
        *client_lines([DRIVEN, process], Ceiling(1024, too_much, timestamps="kernel")),
        *driven_lines(failed),
        *client_lines([failed], Ceiling(0, ("2 of 16 responses failed",))),
        *client_lines([DRIVEN], ended),
    ]
    goldens.check_text("words/client", "\n".join(lines) + "\n")
