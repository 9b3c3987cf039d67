"""Which layer may import which, read from the source."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "agentx_replay"

# Modules at the top that any layer may use.
SHARED = {"errors", "given_files", "reason", "secret_texts", "shipped", "text_format", "units"}

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
    "target": {"endpoint", "experiment", "simulator"},
    "library": {"analysis", "experiment", "report", "scenario", "target"},
    "cli": {
        "analysis", "endpoint", "experiment", "library", "plan", "prompts", "replay", "report",
        "results", "scenario", "simulator", "target", "traces",
    },
    "__main__": {"cli"},
}  # fmt: skip

WITHOUT_EVENT_LOOP = {"analysis", "plan", "prompts", "scenario", "traces"}
EVENT_LOOP_MODULES = {"aiohttp", "asyncio", "uvloop"}


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
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


def test_a_layer_imports_only_layers_below_it() -> None:
    wrong = []
    for path in SOURCES:
        layer = layer_of(path)
        names = [name for name in imported_modules(path) if name.startswith("agentx_replay.")]
        layers = {name.split(".")[1] for name in names} - SHARED - {layer}
        if layer not in SHARED and not layers <= MAY_IMPORT[layer]:
            wrong.append(
                f"{path.relative_to(PACKAGE)} imports {sorted(layers - MAY_IMPORT[layer])}"
            )
    assert not wrong, "\n".join(wrong)


def test_pure_layers_know_no_event_loop() -> None:
    wrong = []
    for path in SOURCES:
        loops = {name.split(".")[0] for name in imported_modules(path)} & EVENT_LOOP_MODULES
        if layer_of(path) in WITHOUT_EVENT_LOOP and loops:
            wrong.append(f"{path.relative_to(PACKAGE)} imports {sorted(loops)}")
    assert not wrong, "\n".join(wrong)


def test_one_module_imports_ray_and_none_that_a_worker_loads_imports_it() -> None:
    ray = {
        path.name for path in SOURCES if "ray" in {n.split(".")[0] for n in imported_modules(path)}
    }
    assert ray == {"ray_nodes.py"}
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        if "agentx_replay.experiment.ray_nodes" in imported_modules(path)
    }
    assert users == {"target.py"}  # when --ray is given
