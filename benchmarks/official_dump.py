"""Print how the official harness splits traces into streams, as JSON. Run by its own Python.

``official_streams.py`` starts this file with a Python that has agentx-harness 1.0.12 installed;
it imports nothing of ours. The harness's loader is run whole but for the text of the prompts,
which would need a tokenizer and says nothing of streams.
"""

import gzip
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class _NoText:
    """Stands in for the harness's writer of prompt text."""

    def __init__(self, **_: Any) -> None: ...

    def init_turn_0(self, **_: Any) -> None: ...

    def advance_turn(self, **_: Any) -> None: ...

    def turn_delta(self) -> SimpleNamespace:
        return SimpleNamespace(delta_messages=[], reset_context=False)


def _loader() -> Any:
    weka: Any = importlib.import_module("aiperf.dataset.loader.weka_trace")
    text: Any = importlib.import_module("aiperf.dataset.loader.weka_synth_buf")
    text.ConversationReconstructor = _NoText
    text.compute_asst_block_caps = lambda pairs, _: [0] * len(pairs)
    no_text: dict[str, Any] = {"bpe_stable_terminator_tokens": []}
    loader: Any = object.__new__(type("Loader", (weka.WekaTraceLoader,), no_text))
    unset = "max_isl max_osl max_context_length inter_turn_delay_cap_seconds path"
    unset += " fixed_schedule_start_offset fixed_schedule_end_offset user_block_size_override"
    for name in unset.split():
        setattr(loader, f"_{name}", None)
    loader._ignore_trace_delays = loader._use_think_time_only = False
    loader._tool_shaped_messages = False
    loader._configured_model_names = []
    loader._delay_cap_tracker = weka.DelayCapTracker(cap_seconds=None)
    random = SimpleNamespace(set_trace_id=lambda _: None)
    loader.prompt_generator = SimpleNamespace(_cache={}, _hash_id_corpus_rng=random)
    weka.Environment.DATASET.WEKA_PARALLEL_WORKERS = 1
    return loader


def _trace(path: Path) -> Any:
    raw = path.read_bytes()
    content = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    models = importlib.import_module("aiperf.dataset.loader.weka_trace_models")
    return models.WekaTrace.model_validate(content)


def _stream(conversation: Any) -> dict[str, Any]:
    return {
        "name": conversation.session_id,
        "turns": [_turn(turn) for turn in conversation.turns],
        "branches": [
            {
                "id": branch.branch_id,
                "streams": branch.child_conversation_ids,
                "start_ms": branch.start_timestamp_ms,
                "background": branch.is_background,
            }
            for branch in conversation.branches
        ],
    }


def _turn(turn: Any) -> dict[str, Any]:
    return {
        "entry": turn.source_outer_idx,
        "inner": turn.source_inner_idx,
        "start_ms": turn.timestamp,
        "duration_ms": turn.api_time_ms,
        "gap_ms": turn.delay,
        "spawns": turn.branch_ids,
        "joins": [joined.branch_id for joined in turn.prerequisites],
        "after": [[ref.conversation_id, ref.turn_index] for ref in turn.replay_predecessors],
    }


def main() -> None:
    """Print {session id: [stream, …]} for the trace files named as arguments."""
    loader = _loader()
    found = {}
    for path in sys.argv[1:]:
        trace = _trace(Path(path))
        conversations = loader.convert_to_conversations({trace.id: [trace]})
        found[trace.id] = [_stream(conversation) for conversation in conversations]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
