"""Whether a level shows that no other can be valid: every response is wrong.

Not for: whether a level is valid (``analysis/findings.py``), which fewer wrong responses decide.
"""

import pyarrow as pa
import pyarrow.compute as pc

from agentx_replay.analysis.findings import MAX_PROMPT_LENGTH_ERROR
from agentx_replay.text_format import counted

WRONG_BY = ("status", "prompt_length_error", "recorded_input_tokens")
"""The columns of ``requests.parquet`` that tell."""
_WRONG = {
    "failed": "failed",
    "overflow": "overflowed the context",
    "length_mismatch": "had another length than asked",
    "ok": "had a prompt of another length, or no usage",
}


def all_wrong(requests: pa.Table) -> str:
    """Return what is wrong with all responses of a level, warm-up included; empty if one is as it
    was asked for, or if none has ended. A prompt may be 0.5 % off.
    """
    ended = requests.filter(pc.not_equal(requests["status"], "cut"))
    most = pc.multiply(ended["recorded_input_tokens"], MAX_PROMPT_LENGTH_ERROR)
    right = pc.and_(
        pc.equal(ended["status"], "ok"),
        pc.less_equal(pc.abs(ended["prompt_length_error"]), most),
    )
    if not len(ended) or pc.any(right).as_py():
        return ""
    counts = pc.value_counts(ended["status"])
    kinds = ", ".join(f"{each['counts']:,} {_WRONG[each['values']]}" for each in counts.to_pylist())
    return f"of {counted(len(ended), 'response')} none is as it was asked for: {kinds}"
