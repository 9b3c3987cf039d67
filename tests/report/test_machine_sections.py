"""What is said of client machines."""

from agentx_replay.report.machine_sections import checked_lines, planned_line


def test_what_check_found_of_a_machine_is_said_in_its_units() -> None:
    found = {
        "host": "b", "cores": 16, "python": "3.12.1", "version": "0.1.0", "ray": "2.60.0",
        "clock": {"ahead_ns": 5_000_000_000, "bound_ns": 640_000,
                  "round_trip_p50_s": 0.0016, "round_trip_p99_s": 0.0038},
        "connect_p50_s": [0.00031],
        "client": {"ceiling": {"streams": 512}},
        "limits": ["its clock is lost"],
    }  # fmt: skip
    said = "\n".join(checked_lines(found))
    for figure in ("16 cores", "P50 1.6 ms", "P99 3.8 ms", "-5,000.00 ms", "0.64 ms", "0.31 ms",
                   "512 streams", "FAIL: its clock is lost"):  # fmt: skip
        assert figure in said


def test_a_planned_machine_has_the_most_lanes_of_any() -> None:
    assert "at most 342 lanes" in planned_line(1024, 3, 3, 900_000_000)
