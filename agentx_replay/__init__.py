"""Replay recorded coding-agent sessions against an OpenAI-compatible endpoint and measure it."""

__version__ = "0.1.0"
__all__ = ["Settings", "UsageError", "compare", "read_run", "sweep"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentx_replay.analysis.run import read_run
    from agentx_replay.errors import UsageError
    from agentx_replay.experiment.settings import Settings
    from agentx_replay.library import compare, sweep

_PLACES = {
    "Settings": "experiment.settings",
    "UsageError": "errors",
    "compare": "library",
    "read_run": "analysis.run",
    "sweep": "library",
}


def __getattr__(name: str) -> object:
    """Import what the library offers when it is first asked for: a command starts without."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
