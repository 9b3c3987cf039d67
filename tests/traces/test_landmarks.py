"""Reuse within and across sessions, by hand, where blocks differ in size."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.landmarks import landmarks
from agentx_replay.traces.statistics import corpus_statistics


def session(name: str, size: int, standing: int, *prompts: list[int]) -> dict[str, Any]:
    requests = [
        {"t": at, "type": "s", "in": size * len(ids), "out": 1, "hash_ids": ids}
        for at, ids in enumerate(prompts)
    ]
    return {"id": name, "block_size": size, "system_tokens": standing, "requests": requests}


def test_reuse_is_of_tokens_and_a_standing_prompt_is_shared_by_all_that_have_it(
    tmp_path: Path,
) -> None:
    """Tokens of blocks: 30 + 30 of a and b, 400 of c: 460. Known within: 10 of a and b each, 100 of
    c: 120. Shared across: b's standing 10 tokens, of which a had all; c is alone with its 150.
    """
    sessions = [
        session("a", 10, 15, [1], [1, 2]),
        session("b", 10, 15, [1], [1, 2]),
        session("c", 100, 150, [1], [1, 2, 3]),
    ]
    (tmp_path / "c.jsonl").write_bytes(b"\n".join(map(orjson.dumps, sessions)))
    corpus = read_corpus(tmp_path)
    found = landmarks(corpus, corpus_statistics(corpus), "this")
    assert found.reuse == pytest.approx(120 / 460)
    assert found.reuse_across == pytest.approx(130 / 460)
    assert (found.requests.p50, found.subagent_sessions) == (2.0, 0.0)
