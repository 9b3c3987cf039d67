"""The codes of errors and reasons, read from the source: the first argument of what makes them."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "agentx_replay"


@cache
def first_arguments(*makers: str) -> list[ast.expr]:
    """The first argument of every call of ``makers`` in the whole package."""
    sources = [path.read_text() for path in sorted(PACKAGE.rglob("*.py"))]
    return [
        node.args[0]
        for source in sources
        if any(f"{maker}(" in source for maker in makers)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers
    ]


def codes_of(*makers: str) -> list[str]:
    """Those of the first arguments that are written out."""
    return [str(each.value) for each in first_arguments(*makers) if isinstance(each, ast.Constant)]
