"""The one-way road: which room may import which, read from the source."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "agentx_replay"

# Modules at the top that any room may use.
SHARED = {"errors", "given_files", "secret_texts", "shipped", "wording"}

MAY_IMPORT = {
    "traces": set(),
    "prompts": {"traces"},
    "scenario": set(),
    "plan": {"scenario", "traces"},
    "replay": {"plan", "prompts", "scenario", "traces"},
    "endpoint": {"replay", "prompts"},
    "results": {"replay", "scenario"},
    "analysis": {"results"},
    "report": {"analysis", "plan", "replay", "results", "scenario", "traces"},
    "simulator": {"endpoint", "prompts", "replay"},
    "experiment": {
        "analysis", "endpoint", "plan", "prompts", "replay", "results", "scenario", "traces",
    },
    "cli": {
        "analysis", "endpoint", "experiment", "plan", "prompts", "replay", "report", "results",
        "scenario", "simulator", "traces",
    },
    "__main__": {"cli"},
}  # fmt: skip

WITHOUT_EVENT_LOOP = {"analysis", "plan", "prompts", "scenario", "traces"}
EVENT_LOOP_MODULES = {"aiohttp", "asyncio", "uvloop"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.add(node.module or "")
    return found


SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py" or "cli" in p.parts)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_before_it_on_the_road(path: Path) -> None:
    room = room_of(path)
    if room in SHARED:
        return
    rooms = {
        name.split(".")[1] for name in imported_modules(path) if name.startswith("agentx_replay.")
    }
    assert rooms - {room} - SHARED <= MAY_IMPORT[room]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_pure_rooms_know_no_event_loop(path: Path) -> None:
    if room_of(path) in WITHOUT_EVENT_LOOP:
        tops = {name.split(".")[0] for name in imported_modules(path)}
        assert not tops & EVENT_LOOP_MODULES
