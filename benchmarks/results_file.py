"""Figures kept in the repository: what, when, on which kind of machine.

Written by the benchmarks and by the tests marked long; ``tests/test_claims.py`` holds the README's
claims to them.
"""

import datetime
import os
import platform
from pathlib import Path
from typing import Any

import orjson

RESULTS = Path(__file__).resolve().parent / "results"


def write_result(name: str, figures: dict[str, Any]) -> Path:
    """Replace ``benchmarks/results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {"date": _today(), "machine": machine(), **figures}
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine() -> dict[str, Any]:
    """Return what a figure depends on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": [round(load, 1) for load in os.getloadavg()],
    }
