"""The reader against real recordings and the figures published beside them, where present."""

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx_replay.plan.conversations import build_graph
from agentx_replay.plan.graph import OFFICIAL
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Corpus, RecordedRequest, Session
from agentx_replay.traces.statistics import CorpusStatistics, corpus_statistics

REAL = Path(__file__).resolve().parents[2] / ".." / "shared" / "traces" / "real"

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="no real recordings on this machine")


def official_streams(session: Session) -> list[list[RecordedRequest]]:
    """Return the conversations of the main list, flattened agents pulled apart."""
    conversations = build_graph(session, OFFICIAL).conversations
    return [[s.request for s in each.turns] for each in conversations if each.name[:3] != "sa:"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read_corpus(REAL)


@pytest.fixture(scope="module")
def found(corpus: Corpus) -> CorpusStatistics:
    return corpus_statistics(corpus, official_streams)


@pytest.fixture(scope="module")
def published() -> list[dict[str, Any]]:
    """The manifest's entries in order of file name, which is corpus order."""
    traces: list[dict[str, Any]] = orjson.loads((REAL / "manifest.json").read_bytes())["traces"]
    return sorted(traces, key=lambda trace: str(trace["name"]))


def test_it_holds_26_sessions_and_3334_requests(found: CorpusStatistics) -> None:
    assert (len(found.sessions), found.total.requests, found.total.subagents) == (26, 3334, 31)
    assert (found.notes.missing_durations, found.notes.zero_outputs) == (372, 4)
    assert (found.skipped, found.notes.unknown_keys, found.families) == ((), (), ())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("requests", "requests"),
        ("subagents", "subagents"),
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
        ("peak_tokens", "peak_input_plus_output"),
        ("resets", "resets_keep_lt_half"),
        ("edits", "edits"),
        ("reuse", "reuse_infinite_cache"),  # six decimals
    ],
)
def test_every_session_counts_as_published(
    found: CorpusStatistics, published: list[dict[str, Any]], ours: str, theirs: str
) -> None:
    values = [round(getattr(session, ours), 6) for session in found.sessions]
    assert values == [trace[theirs] for trace in published]


def test_blocks_are_stored_once(corpus: Corpus, found: CorpusStatistics) -> None:
    stored = sum(len(session.blocks) for session in corpus.sessions)
    prompts = sum(session.blocks for session in found.sessions)
    assert stored == prompts - sum(session.known_blocks for session in found.sessions)


def test_a_path_of_every_session_is_what_its_file_lists(corpus: Corpus) -> None:
    """Equal recorded ids are equal blocks: checked on all requests of the smaller files."""
    files = sorted(REAL.glob("*.json.gz"))
    for file, session in zip(files, corpus.sessions, strict=True):
        if file.stat().st_size > 60_000:
            continue
        value = orjson.loads(gzip.decompress(file.read_bytes()))
        lists = [r["hash_ids"] for e in value["requests"] for r in e.get("requests", [e])]
        numbers: dict[int, int] = {}
        for request, ids in zip(session.requests(), lists, strict=True):
            path = session.blocks.path(request.tip_block).tolist()
            assert len(path) == len(ids)
            assert all(
                numbers.setdefault(i, block) == block for i, block in zip(ids, path, strict=True)
            )
        assert len(set(numbers.values())) == len(numbers)
