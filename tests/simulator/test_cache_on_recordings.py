"""The prefix cache on real recordings, against what their authors counted."""

from pathlib import Path

import numpy as np
import orjson

from agentx_replay.simulator.prefix_cache import PrefixCache
from agentx_replay.traces.corpus import read_corpus


def test_an_unlimited_cache_finds_what_the_manifest_says(real_traces: Path) -> None:
    manifest = orjson.loads((real_traces / "manifest.json").read_bytes())
    expected = {trace["name"]: trace["reuse_infinite_cache"] for trace in manifest["traces"]}
    for session in read_corpus(real_traces).sessions:
        cache = PrefixCache(10_000_000)
        asked = found = 0
        for request in sorted(session.requests(), key=lambda each: each.recorded_order):
            ids = session.blocks.path(request.tip_block).astype(np.uint64)
            lease = cache.admit(ids, len(ids), len(ids))
            assert lease is not None
            asked += len(ids)
            found += lease.blocks
            cache.insert(lease, ids[lease.blocks :])
            cache.release(lease)
        assert round(found / asked, 6) == expected[session.id]
