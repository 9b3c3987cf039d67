"""Client machines of a level: whose lanes are whose, and which machine stands apart."""

import numpy as np
import pytest

from agentx_replay.analysis import findings
from agentx_replay.analysis.client_lag import InstrumentReport
from agentx_replay.analysis.machines import (
    Interval,
    MachineFacts,
    MachineLatency,
    apart,
    close_sends,
    interval,
    machine_of,
)


def machine(host: str, workers: int = 1, drift_ns: int | None = 0) -> MachineFacts:
    return MachineFacts(
        host, workers, 8, "3.11.7", "0.1.0", "2.60.0", 0, 1000, drift_ns, 0.001, 0.002
    )


def test_worker_k_plays_on_machine_k_mod_their_number() -> None:
    # Lanes 0 to 4 are played by workers 0 to 4 of 5, lane 5 by worker 0 again.
    machines = [machine("a", 3), machine("b", 2)]
    assert machine_of(np.arange(7), machines).tolist() == [0, 1, 0, 1, 0, 0, 1]


def test_the_interval_of_a_p90_is_that_of_its_lanes() -> None:
    lanes = np.repeat(np.arange(8), 10)
    same = interval(np.full(80, 3e7), lanes)
    assert same == Interval(0.03, 0.03, 0.03)
    # One lane in eight is slow: drawn anew, the slow tenth is absent in some draws.
    mixed = interval(np.where(lanes == 7, 9e7, 3e7), lanes)
    assert mixed is not None
    assert mixed == Interval(0.09, 0.03, 0.09)
    assert interval(np.full(70, 3e7), np.repeat(np.arange(7), 10)) is None
    assert interval(np.full(80, np.nan), lanes) is None


NEAR, FAR = Interval(0.030, 0.029, 0.031), Interval(0.034, 0.033, 0.035)
TOUCHING = Interval(0.0320, 0.0317, 0.033)  # 2.3 % above the other's most


@pytest.mark.parametrize(
    ("seen", "named"),
    [
        ([NEAR, NEAR], []),
        ([NEAR, TOUCHING], []),
        ([NEAR, FAR], [0, 1]),  # of two, each stands apart from the other
        ([NEAR, NEAR, FAR], [2]),
        ([FAR, None, FAR, NEAR], [3]),
        ([FAR], []),
        ([None, None], []),
    ],
)
def test_a_machine_stands_apart_outside_all_others(
    seen: list[Interval | None], named: list[int]
) -> None:
    assert [index for index, _, _ in apart(seen)] == named


def test_sends_of_two_machines_that_clocks_cannot_order_are_counted() -> None:
    """Both clocks are known to 1,000 ns, so that 2,000 ns apart an order is known."""
    machines = [machine("a"), machine("b")]  # lanes 0 and 2 on a, lane 1 on b
    send_ns = np.array([0.0, 10_000, 10_500, 12_499, 14_499, 14_500])
    lanes = np.array([0, 2, 0, 1, 2, 0])
    assert close_sends(send_ns, lanes, machines) == (1, 6)


def test_a_slow_client_is_named_by_its_machine() -> None:
    slow, well = (InstrumentReport(None, None, None, share) for share in (0.9, 0.1))
    (found,) = findings.saturation(slow, [("a", well), ("b", slow), ("c", None)])
    assert (found.code, found.text.endswith(", on machine b")) == ("client-cpu", True)


def test_a_drift_over_10_ms_and_a_machine_apart_are_warnings() -> None:
    machines = [machine("a", drift_ns=-10_000_001), machine("b", drift_ns=None), machine("c")]
    latencies = [MachineLatency(8, of, None) for of in (NEAR, NEAR, FAR)]
    found = list(findings.machines_alike(machines, latencies))
    assert [each.code for each in found] == ["machine-clock-drifted", "machine-apart"]
    assert " a " in found[0].text
    assert " c " in found[1].text
    assert list(findings.machines_alike([machine("a", drift_ns=10_000_000)], [])) == []
