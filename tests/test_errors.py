"""Every error that a person can cause has a code of its own, written where it is raised."""

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "agentx_replay"
RAISING = {"UsageError", "_unusable", "_refused"}


def first_arguments() -> list[ast.expr]:
    """The first argument of every call that makes a ``UsageError``, in the whole package."""
    calls = [
        node
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in RAISING
    ]
    return [call.args[0] for call in calls]


def test_every_error_has_a_code_of_small_letters_and_hyphens_that_no_other_has() -> None:
    codes = [str(each.value) for each in first_arguments() if isinstance(each, ast.Constant)]
    assert len(codes) > 100
    assert [code for code in codes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)] == []
    assert [code for code, times in Counter(codes).items() if times > 1] == []


def test_a_code_is_written_out_but_where_an_error_is_passed_on() -> None:
    computed = [
        ast.unparse(each) for each in first_arguments() if not isinstance(each, ast.Constant)
    ]
    assert sorted(computed) == [
        "code", "code", "code", "code", "refusal.code", "said.get('code', 'simulator-ended')",
    ]  # fmt: skip
