"""Every error and warning that a person can cause has a code of its own, where it is made."""

import ast
import re
from collections import Counter
from pathlib import Path

from raised_codes import codes_of, first_arguments

from agentx_replay.results.durable import FAULTS, explain

RAISING = ("UsageError", "unusable", "_unusable", "_refused", "Reason")


def test_every_error_has_a_code_of_small_letters_and_hyphens_that_no_other_has() -> None:
    other_fault = explain(OSError(0, "it refuses"), Path("f")).code
    codes = [*codes_of(*RAISING), *{code for code, _, _ in FAULTS.values()}, other_fault]
    assert len(codes) > 100
    assert [code for code in codes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)] == []
    assert [code for code, times in Counter(codes).items() if times > 1] == []


def test_a_code_is_written_out_but_where_an_error_is_passed_on() -> None:
    computed = [
        ast.unparse(each)
        for each in first_arguments(*RAISING)
        if not isinstance(each, ast.Constant)
    ]
    assert sorted(computed) == [
        "code", "code", "code", "error.code", "error.code", "message.code",
        "said.get('code', 'simulator-ended')",
    ]  # fmt: skip
