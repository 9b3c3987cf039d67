"""What generated sessions hold, and that the shipped corpus is what the generator makes."""

import gzip
from pathlib import Path

import orjson
import pytest

from agentx_replay.shipped import shipped_directory
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.generate import (
    BUNDLED_FILE,
    LARGE,
    MEDIUM,
    SMALL,
    Limits,
    bundled_corpus,
    generate_corpus,
    write_corpus,
)
from agentx_replay.traces.model import Corpus, Subagent
from agentx_replay.traces.statistics import corpus_statistics


@pytest.fixture(scope="module")
def bundled() -> Corpus:
    return read_corpus(shipped_directory("traces"))


def test_the_shipped_file_is_what_the_generator_makes_today() -> None:
    shipped = (shipped_directory("traces") / BUNDLED_FILE).read_bytes()
    assert list(map(orjson.loads, gzip.decompress(shipped).splitlines())) == bundled_corpus()
    assert len(shipped) < 400_000


def test_the_shipped_corpus_has_its_kinds_within_their_limits(bundled: Corpus) -> None:
    peaks = {s.id: s.peak_tokens for s in corpus_statistics(bundled).sessions}
    assert sorted(peaks) == sorted(
        [f"small-{n}" for n in range(1, 7)]
        + [f"medium-{n}" for n in range(1, 17)]
        + [f"large-{n}" for n in range(1, 15)]
    )
    most = {"small": 4_096, "medium": 32_000, "large": 200_000}
    assert all(peak <= most[name.split("-")[0]] for name, peak in peaks.items())
    assert max(peaks.values()) > 150_000


def test_small_sessions_suit_a_server_of_4096_tokens(bundled: Corpus) -> None:
    requests = [r for s in bundled.sessions if s.id.startswith("small") for r in s.requests()]
    assert all(200 <= r.input_tokens <= 3_920 for r in requests)
    assert all(r.output_tokens == 0 or 10 <= r.output_tokens <= 80 for r in requests)


def test_the_shipped_corpus_has_what_recordings_have(bundled: Corpus) -> None:
    found = corpus_statistics(bundled)
    agents = [e for s in bundled.sessions for e in s.entries if isinstance(e, Subagent)]
    assert min(found.total.resets, found.total.edits) > 0
    assert min(found.notes.missing_durations, found.notes.zero_outputs) > 0
    assert {agent.status for agent in agents} == {"completed", "async_launched"}
    spawns = [
        (s.id, e.spawn_s) for s in bundled.sessions for e in s.entries if isinstance(e, Subagent)
    ]
    assert len({(name, round(spawn, 2)) for name, spawn in spawns}) < len(spawns)  # siblings
    assert 0.9 < found.total.reuse < 0.99
    assert (found.notes.unknown_keys, found.notes.short_block_lists, found.families) == ((), 0, ())


def test_generated_markers_are_read_as_they_were_meant(bundled: Corpus) -> None:
    for session in bundled.sessions:
        agents = [entry for entry in session.entries if isinstance(entry, Subagent)]
        assert session.notes.relative_inner_times == bool(agents)
        for agent in agents:
            assert agent.marker_is_completion == (agent.status == "completed")


def test_a_session_depends_on_seed_and_number_alone() -> None:
    five, two = generate_corpus(1, 5, SMALL), generate_corpus(1, 2, SMALL)
    assert five[:2] == two
    assert generate_corpus(2, 2, SMALL) != two
    assert [s["id"] for s in generate_corpus(1, 2, SMALL, "mine")] == ["mine-1", "mine-2"]


@pytest.mark.parametrize("limits", [SMALL, MEDIUM, LARGE])
def test_no_generated_request_exceeds_its_limits(limits: Limits, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    write_corpus(generate_corpus(7, 12, limits), file)
    for session in read_corpus(file).sessions:
        main = [r for r in session.entries if not isinstance(r, Subagent)]
        assert limits.requests[0] <= len(main) <= limits.requests[1]
        for request in session.requests():
            assert request.input_tokens + max(1, request.output_tokens) <= limits.peak_tokens
            assert request.block_count == request.input_tokens // 64


def test_a_main_conversation_waits_for_its_subagents_but_not_for_those_in_the_background(
    bundled: Corpus,
) -> None:
    for session in bundled.sessions:
        main_starts = [r.start_s for r in session.entries if not isinstance(r, Subagent)]
        for agent in session.entries:
            if isinstance(agent, Subagent) and agent.marker_is_completion:
                assert not any(agent.spawn_s < start < agent.marker_t_s for start in main_starts)


def test_a_written_corpus_is_compressed_if_its_name_says_so(tmp_path: Path) -> None:
    sessions = generate_corpus(1, 2, SMALL)
    write_corpus(sessions, tmp_path / "a.jsonl")
    write_corpus(sessions, tmp_path / "b.jsonl.gz")
    write_corpus(sessions, tmp_path / "c.jsonl.gz")
    plain = (tmp_path / "a.jsonl").read_bytes()
    assert [orjson.loads(line) for line in plain.splitlines()] == sessions
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()) == plain
    assert (tmp_path / "b.jsonl.gz").read_bytes() == (tmp_path / "c.jsonl.gz").read_bytes()
