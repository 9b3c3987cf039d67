"""What ``check`` prints, word for word."""

from dataclasses import replace

from agentx_replay.analysis.client_error import Ceiling, Driven
from agentx_replay.report.check_lines import client_lines, server_lines

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
DRIVEN = Driven(
    streams=64,
    burst=True,
    planned_tokens_per_s=3200.0,
    tokens_per_s=3190.0,
    cpu_us_per_token=12.34,
    cpu_share=0.04,
    failed=0,
    stamp_error_p50_s=0.0001,
    stamp_error_p99_s=0.002,
    stamp_error_p999_s=0.0031,
    ttft_error_p50_s=0.0004,
    ttft_error_p99_s=0.0051,
    itl_error=0.0012,
    late_event_share=0.00256,
    timestamps="kernel",
)


def test_a_servers_readiness() -> None:
    assert server_lines(FACTS, ("mind this",)) == [
        "server http://host:8000/v1 (uvicorn)",
        "  model:              m",
        "  streaming:          yes",
        "  usage:              yes",
        "  cached tokens:      no",
        "  ignore_eos:         yes",
        "  context limit:      131,072 tokens",
        "  keep-alive:         5 s",
        "  output limit field: max_tokens",
        "  note: mind this",
    ]


def test_what_a_server_does_not_tell() -> None:
    untold = FACTS | {"server": None, "max_model_len": None, "keep_alive_s": None}
    lines = server_lines(untold, ())
    assert lines[0] == "server http://host:8000/v1 (does not name itself)"
    assert lines[6:8] == ["  context limit:      not told", "  keep-alive:         not announced"]


CLIENT = "client, one process, against a server that knows when each token left; timestamps by the "


def test_the_clients_own_error_by_the_kernel_and_beside_it_by_the_process() -> None:
    process = replace(DRIVEN, timestamps="process", itl_error=0.03, late_event_share=0.2)
    too_much = ("52,000 of 102,400 tok/s were reached",)
    assert client_lines([DRIVEN, process], Ceiling(1024, too_much, timestamps="kernel")) == [
        f"{CLIENT}kernel",
        "  64 streams, step-synchronised bursts, kernel timestamps: 3,190 of 3,200 tok/s, 12.3 µs "
        "of CPU a token",
        "    late by 0.100, 2.000, 3.100 ms (P50, P99, P99.9); 0.26% of them upper bounds",
        "    TTFT too long by 0.400, 5.100 ms (P50, P99); P90 ITL off by 0.12%",
        "  64 streams, step-synchronised bursts, process timestamps: 3,190 of 3,200 tok/s, 12.3 µs "
        "of CPU a token",
        "    late by 0.100, 2.000, 3.100 ms (P50, P99, P99.9); 20.00% of them upper bounds",
        "    TTFT too long by 0.400, 5.100 ms (P50, P99); P90 ITL off by 3.00%",
        "    too much: the P90 ITL was 3.0% off (limit 2.5%)",
        "  PASS: 64 streams of 50 tok/s can be measured honestly here (one trial of each kind)",
        "  one worker: up to 1,024 streams honestly in bursts; twice as many were too much, tried "
        "twice:",
        "    52,000 of 102,400 tok/s were reached",
    ]


def test_a_load_that_was_too_much_says_why_and_has_no_errors_to_tell() -> None:
    failed = Driven(64, False, 3200.0, 3190.0, 12.34, 0.04, failed=2)
    lines = client_lines([failed], Ceiling(0, ("2 of 16 responses failed",)))
    assert lines[1:4] == [
        "  64 streams, staggered, process timestamps: 3,190 of 3,200 tok/s, 12.3 µs of CPU a token",
        "    too much: 2 of 64 responses failed",
        "  FAIL: 64 streams of 50 tok/s are more than one process can honestly measure here",
    ]


def test_a_look_that_ended_before_anything_was_too_much_says_at_least() -> None:
    ceiling = Ceiling(512, ended="the 20 s for looking were used up", timestamps="kernel")
    assert client_lines([DRIVEN], ceiling)[-1] == (
        "  one worker: at least 512 streams honestly in bursts (the 20 s for looking were used up)"
    )
