"""How many streams one worker drives honestly: doubled until they are too many, halved before."""

import asyncio

import pytest

from agentx_replay.analysis.client_error import Ceiling, Driven, Load
from agentx_replay.experiment import ceiling
from agentx_replay.experiment.ceiling import find_ceiling


def found(
    monkeypatch: pytest.MonkeyPatch, most: int, budget_s: float = 1e6
) -> tuple[Ceiling, list[int]]:
    """The ceiling of a client that drives ``most`` streams, and the streams that were tried."""
    tried: list[int] = []

    async def drive(url: str, load: Load) -> Driven:
        assert (url, load.burst, load.timestamps) == ("u", True, "kernel")
        tried.append(load.streams)
        planned = load.streams * load.rate
        failed = int(load.streams > most)
        return Driven(load.streams, True, planned, planned, 1.0, 0.1, failed, timestamps="kernel")

    monkeypatch.setattr(ceiling, "drive", drive)
    monkeypatch.setattr(ceiling, "raise_open_files", lambda: 10**6)
    return asyncio.run(find_ceiling("u", 50.0, budget_s, "kernel")), tried


def test_streams_are_doubled_until_twice_as_many_are_too_much_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, tried = found(monkeypatch, most=1100)
    assert (limit.streams, limit.ended, limit.timestamps) == (1024, None, "kernel")
    assert limit.limits == ("1 of 2048 responses failed",)
    assert tried == [256, 512, 1024, 2048, 2048]


def test_they_are_halved_where_the_first_number_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, tried = found(monkeypatch, most=70)
    assert (limit.streams, limit.limits) == (64, ("1 of 128 responses failed",))
    assert tried == [256, 256, 128, 128, 64]


def test_a_client_that_drives_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, _ = found(monkeypatch, most=0)
    assert (limit.streams, limit.limits) == (0, ("1 of 1 responses failed",))


def test_no_more_than_4096_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, tried = found(monkeypatch, most=10**6)
    assert (limit.streams, limit.limits) == (4096, ())
    assert " 4,096 connections " in (limit.ended or "")
    assert tried[-1] == 4096


def test_a_look_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, tried = found(monkeypatch, most=10**6, budget_s=0.0)
    assert limit.streams == 0
    assert " 0 s " in (limit.ended or "")
    assert tried == []
