"""The codes of errors and reasons, read from the source: the first argument of what makes them."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "agentx_replay"


@cache
def _calls() -> list[tuple[str, ast.Call]]:
    """Every call of a plain name in the whole package."""
    return [
        (node.func.id, node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def first_arguments(*makers: str) -> list[ast.expr]:
    """The first argument of every call of ``makers`` in the whole package."""
    return [call.args[0] for name, call in _calls() if name in makers]


def codes_of(*makers: str) -> list[str]:
    """Those of the first arguments that are written out."""
    return [str(each.value) for each in first_arguments(*makers) if isinstance(each, ast.Constant)]
