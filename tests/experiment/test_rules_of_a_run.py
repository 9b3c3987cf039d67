"""What a run knows of how far it keeps its scenario's rules, before a request is sent."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentx_replay.analysis.findings import context
from agentx_replay.experiment.settings import Settings
from agentx_replay.experiment.sweep import rules_of
from agentx_replay.plan.selection import Selection, select_sessions
from agentx_replay.scenario import load_scenario
from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Corpus

BUNDLED = shipped_directory("traces")
SETTINGS = Settings(
    traces=Path("mine"), scenario=load_scenario("agentx"), concurrency=(1,), out=Path("o"), salt="s"
)  # fmt: skip


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read_corpus(BUNDLED)


@pytest.fixture(scope="module")
def selection(corpus: Corpus) -> Selection:
    return select_sessions(corpus, max_context=None, max_sessions=393)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("server", None),
        ("built-in simulator", "the built-in simulator, not a server"),
        ("simulator in virtual time", "virtual time: the modelled engine, no wire"),
    ],
)
def test_what_is_no_server_is_told(
    corpus: Corpus, selection: Selection, kind: str, said: str | None
) -> None:
    assert rules_of(SETTINGS, corpus, selection, {"kind": kind}).no_server == said


def test_the_corpus_is_named_by_fingerprint_and_counted(
    corpus: Corpus, selection: Selection
) -> None:
    rules = rules_of(SETTINGS, corpus, selection, {"kind": "server"})
    assert rules.corpus == corpus.fingerprint
    assert (rules.sessions, rules.max_sessions) == (36, 393)
    assert rules.other_corpus is None


def test_the_bundled_sessions_are_another_corpus(corpus: Corpus, selection: Selection) -> None:
    rules = rules_of(replace(SETTINGS, traces=BUNDLED), corpus, selection, {"kind": "server"})
    assert rules.other_corpus is not None


def test_a_context_that_leaves_out_over_a_tenth_of_the_requests_is_a_warning(
    corpus: Corpus,
) -> None:
    # 542 of 1,545 are in the eight sessions that need more than 100,000 tokens.
    selection = select_sessions(corpus, max_context=100_000, max_sessions=393)
    rules = rules_of(SETTINGS, corpus, selection, {"kind": "server"})
    assert (rules.requests_too_long, rules.requests_recorded) == (542, 1_545)
    (finding,) = context(rules)
    assert finding.code == "context-leaves-out"
    assert [*context(replace(rules, requests_too_long=154))] == []
