"""The README's table of speed claims no more than the last result files hold, and hides no miss."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
HEADING = "## How fast is the instrument"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: ``figure`` is "at most 2" or "at least 4", ``goal`` a number or "-"."""

    what: str
    figure: str
    goal: str
    met: str


def number(cell: str) -> float:
    """The number in a cell; units and words around it do not matter."""
    found = re.search(r"\d[\d,]*\.?\d*", cell)
    assert found is not None, f"no number in {cell!r}"
    return float(found[0].replace(",", ""))


def faults(row: Row, measured: float) -> list[str]:
    """What is wrong with a line, given what was measured in its unit."""
    at_most = row.figure.startswith("at most ")
    assert at_most or row.figure.startswith("at least "), row.figure
    stronger = number(row.figure) < measured if at_most else number(row.figure) > measured
    found = [f"claims {row.figure}, measured {measured:g}"] if stronger else []
    if row.goal != "-":
        goal = number(row.goal)
        met = measured <= goal if at_most else measured >= goal
        if row.met != ("yes" if met else "no"):
            found.append(f"says {row.met!r} of the goal {row.goal}, measured {measured:g}")
    return found


def table(text: str) -> list[Row]:
    section = text.split(HEADING)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


# --- what each line is held to ------------------------------------------------------------------


def hot_path(streams: int, figure: str, how: str = "staggered") -> Callable[[Document], float]:
    def measured(document: Document) -> float:
        loads = {(load["streams"], load["how"]): load for load in document["loads"]}
        return float(loads[streams, how][figure])

    return measured


def unmarked_delay_us(document: Document) -> float:
    """The worst of all loads."""
    ours = [load["clients"]["agentx-replay"] for load in document["loads"]]
    return max(float(each["stamp_delay_p99_9_us"]) for each in ours)


def parsing_over_floor(document: Document) -> float:
    """The worst of all loads."""
    return max(float(load["parsing_over_floor"]) for load in document["loads"])


def compared(what: str) -> Callable[[Document], float]:
    def measured(document: Document) -> float:
        return float({each["what"]: each for each in document["compared"]}[what]["over_the_best"])

    return measured


def bodies_a_second(document: Document) -> float:
    """To the nearest ten: the last answers come after the last body is due."""
    return round(float(document["loads"]["300 KB bodies"]["reached_a_second"]), -1)


def of(*path: str, times: float = 1) -> Callable[[Document], float]:
    def measured(document: Document) -> float:
        value: Any = document
        for key in path:
            value = value[key]
        return float(value) * times

    return measured


CLAIMS: dict[str, tuple[str, Callable[[Document], float]]] = {
    "CPU per token over a C epoll client's, 256 streams":
        ("hot_path", hot_path(256, "cpu_a_token_over_floor")),
    "the same, in bursts":
        ("hot_path", hot_path(256, "cpu_a_token_over_floor", "step-synchronised")),
    "the same, 1,024 streams": ("hot_path", hot_path(1024, "cpu_a_token_over_floor")),
    "the same, 1,024 in bursts":
        ("hot_path", hot_path(1024, "cpu_a_token_over_floor", "step-synchronised")),
    "parsing, after a response's end, over the C client's CPU": ("hot_path", parsing_over_floor),
    "token path and parsing together, 256 streams": ("hot_path", hot_path(256, "both_over_floor")),
    "delay of a timestamp that is not marked, P99.9, µs": ("hot_path", unmarked_delay_us),
    "bursts of 256 streams: stamp delay P50, ms": ("bursts", of("stamp_delay_p50_ms")),
    "stamp delay P99 above the C client's, ms": ("bursts", of("stamp_delay_p99_above_floor_ms")),
    "error of the P90 ITL": ("bursts", of("itl_p90_error", times=100)),
    "tokens a core-second over the best Python peer's":
        ("peers", compared("tokens a core-second")),
    "start to first request, the fastest peer's over ours":
        ("peers", compared("start to first request")),
    "peak memory (RSS), the leanest peer's over ours": ("peers", compared("peak memory, RSS")),
    "bodies of 300 KB a second, 1,000 asked": ("request_side", bodies_a_second),
    "share of a core for 1,000 of them a second":
        ("request_side", of("loads", "300 KB bodies", "core_share_at_the_rate_asked", times=100)),
    "longest CPU between two timers, 1 MB bodies, ms":
        ("request_side", of("loads", "1,000 KB bodies", "cpu_between_timers_most_ms")),
    "recorded to Parquet, bytes a token": ("recorder", of("bytes_a_token")),
    "recording in the loop's thread, CPU ns a token": ("recorder", of("record_cpu_ns_a_token")),
    "peak memory of recording 10 M tokens and compacting them, MB":
        ("recorder", of("peak_mb_compacting")),
}  # fmt: skip
README = (ROOT / "README.md").read_text()


def document(name: str) -> Document:
    found: Document = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def test_the_table_has_every_claim_and_no_other() -> None:
    assert [row.what for row in table(README)] == list(CLAIMS)


@pytest.mark.parametrize("row", table(README), ids=lambda row: row.what)
def test_no_line_claims_more_than_its_result_file_holds(row: Row) -> None:
    name, measured = CLAIMS[row.what]
    assert faults(row, measured(document(name))) == []


@pytest.mark.parametrize("name", sorted({name for name, _ in CLAIMS.values()}))
def test_date_and_machine_are_those_of_the_result_files(name: str) -> None:
    found = document(name)
    machine = found["machine"]
    told = f"{found['date']}, {machine['cores']} cores, {machine['architecture']}"
    assert told in README.split(HEADING)[1]


@pytest.mark.parametrize(
    ("figure", "goal", "met", "measured", "wrong"),
    [
        ("at most 2.1 ×", "2.3", "yes", 2.1, 0),
        ("at most 2.0 ×", "2.3", "yes", 2.1, 1),  # stronger than measured
        ("at most 2.5 ×", "2.3", "yes", 2.4, 1),  # a miss called met
        ("at most 2.5 ×", "2.3", "no", 2.4, 0),
        ("at least 4.0 ×", "4", "yes", 4.1, 0),
        ("at least 4.2 ×", "4", "yes", 4.1, 1),
        ("at least 1,500", "2,000", "no", 1600, 0),
        ("at least 1,700", "2,000", "yes", 1600, 2),
        ("at most 8 µs", "-", "", 7.9, 0),
    ],
)
def test_a_claim_is_wrong_when_it_is_stronger_or_hides_a_miss(
    figure: str, goal: str, met: str, measured: float, wrong: int
) -> None:
    assert len(faults(Row("what", figure, goal, met), measured)) == wrong


def test_a_row_is_read_with_its_cells() -> None:
    text = (
        f"{HEADING}\n\n| a | b | c | d |\n|---|---|---|---|\n| w | at most 1 | 2 | yes |\n## Next"
    )
    assert table(text) == [Row("w", "at most 1", "2", "yes")]
