"""Faults at random rates through a whole replay: nothing lost, nothing doubled, nothing stalled.

A replay of small sessions on real sockets, against an engine that breaks one response in twelve.
What the server knows it did to each request is held against the records.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
import pytest
from faulty_answers import Act, Break, Fault, Point, Shape
from socket_replay import Controls, Outcome, replayed

LANES = 24
SHARE = 1 / 12
ENDS_AT_REQUEST = 450
UNHARMED = 100
"""Requests before the first fault: a run stops when a tenth of its first few fail."""

FAULTS: dict[str, Fault] = {
    "reset before headers": Fault(breaks=Break(Act.RESET, Point.BEFORE_HEADERS)),
    "reset before the first token": Fault(breaks=Break(Act.RESET, Point.BEFORE_FIRST_TOKEN)),
    "closed after the last token": Fault(breaks=Break(Act.CLOSE, Point.AFTER_LAST_TOKEN)),
    "closed after [DONE]": Fault(breaks=Break(Act.CLOSE, Point.AFTER_DONE)),
    "an error in a 200": Fault(breaks=Break(Act.ERROR_OBJECT, Point.BEFORE_FIRST_TOKEN)),
    "garbage": Fault(breaks=Break(Act.GARBAGE, Point.AFTER_LAST_TOKEN)),
    "429": Fault(breaks=Break(Act.STATUS, Point.BEFORE_HEADERS, status=429)),
    "503": Fault(breaks=Break(Act.STATUS, Point.BEFORE_HEADERS, status=503)),
    "a short stall": Fault(breaks=Break(Act.STALL, Point.BEFORE_FIRST_TOKEN, stall_s=0.05)),
    "a stall without end": Fault(breaks=Break(Act.STALL, Point.AFTER_LAST_TOKEN, stall_s=3600.0)),
    "sheared": Fault(Shape(sheared=True, line_end="\r\n")),
}
# Status and category of the record, where the run was not cut before; a stall without end always
# is. A reset before headers is only a failure on a new connection; on one that was used before the
# request is sent again.
RECORDS = {
    "reset before headers": {("failed", "reset")},
    "reset before the first token": {("failed", "reset")},
    "closed after the last token": {("failed", "reset")},
    "closed after [DONE]": {("ok", None)},
    "an error in a 200": {("failed", "stream_error")},
    "garbage": {("failed", "malformed")},
    "429": {("failed", "rate_limited")},
    "503": {("failed", "server_error")},
    "a short stall": {("ok", None)},
    "sheared": {("ok", None)},
}


@dataclass(slots=True)
class AtRandom:
    """Breaks a share of the requests of a window, each in the next way, and ends it after some.

    ``met`` is what each request met, by number. A request of the warm-up, which asks for one token,
    is left alone: a failure there ends the run.
    """

    rng: random.Random
    names: Iterator[str] = field(default_factory=lambda: itertools.cycle(FAULTS))
    met: list[str] = field(default_factory=list)

    def __call__(self, controls: Controls, number: int, body: bytes) -> Fault | None:
        asked = orjson.loads(body)["max_completion_tokens"]
        breaks = asked > 1 and number >= UNHARMED and self.rng.random() < SHARE
        name = next(self.names) if breaks else "nothing"
        assert number == len(self.met)
        self.met.append(name)
        if len(self.met) == ENDS_AT_REQUEST and controls.replay is not None:
            controls.replay.stop()
        return FAULTS.get(name)


@dataclass(frozen=True, slots=True)
class Broken:
    """``met`` is what each sending of a request met, by the request's id."""

    outcome: Outcome
    met: dict[str, list[str]]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Broken:
    faults = AtRandom(random.Random(7))
    outcome = replayed(tmp_path_factory.mktemp("random"), faults, lanes=LANES)
    met = {name: [faults.met[n] for n in numbers] for name, numbers in outcome.sent.items()}
    return Broken(outcome, met)


def test_every_request_that_was_sent_has_one_record(broken: Broken) -> None:
    recorded = Counter(row["request_id"] for row in broken.outcome.rows)
    assert set(recorded.values()) == {1}
    assert recorded.keys() == broken.met.keys()


def test_a_request_is_sent_again_as_often_as_its_record_says(broken: Broken) -> None:
    sent = {name: len(met) - 1 for name, met in broken.met.items()}
    assert {row["request_id"]: row["retries"] for row in broken.outcome.rows} == sent
    assert sum(sent.values()) > 0
    for name, met in broken.met.items():
        assert set(met[:-1]) <= {"reset before headers"}, name


def test_every_fault_has_its_record(broken: Broken) -> None:
    seen: dict[str, set[tuple[str, str | None]]] = {}
    for row in broken.outcome.rows:
        if row["status"] != "cut":
            last = broken.met[row["request_id"]][-1]
            seen.setdefault(last, set()).add((row["status"], row["error_category"]))
    assert seen.pop("nothing") == {("ok", None)}
    assert len(seen) >= 8
    assert seen == {name: RECORDS[name] for name in seen}


def test_the_end_comes_on_time_whatever_hangs_and_leaves_no_task(broken: Broken) -> None:
    assert broken.outcome.tasks_left == 0
    assert broken.outcome.overtime_s < 30.0  # a busy machine's slack; what hangs would take 3600
