"""Notes when the official harness learns that a request has ended. Loaded by its Python, not ours.

``official_run.py`` puts this directory on the harness's path. Nothing of the harness is changed:
the call that begins the next wait is watched, and each is noted in a line of the file that
AGENTX_RETURNS names: the request (correlation id, turn) and the instant (ns since the epoch).
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

_WATCHED = "aiperf.timing.strategies.agentic_replay"


def _watch(module: ModuleType) -> None:
    strategy: Any = module.AgenticReplayStrategy
    returned = strategy.handle_credit_return

    async def watched(self: Any, credit: Any, **more: Any) -> None:
        with Path(os.environ["AGENTX_RETURNS"]).open("a") as file:
            file.write(f"{credit.x_correlation_id} {credit.turn_index} {time.time_ns()}\n")
        await returned(self, credit, **more)

    strategy.handle_credit_return = watched


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the watched module as usual, and watches it once it is loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _WATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def loaded(module: ModuleType) -> None:
                load(module)
                _watch(module)

            spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


if "AGENTX_RETURNS" in os.environ:
    sys.meta_path.insert(0, _Finder())
