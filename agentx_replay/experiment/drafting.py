"""Whether a level was played with speculative decoding, as the server's own metrics show it.

Greedy output over random words loops, so that acceptance is not that of code: such a level is not
comparable. Whether acceptance was synthetic no engine tells, so it is not taken to be.
"""

from dataclasses import replace
from pathlib import Path

from agentx_replay.analysis.facts import Rules
from agentx_replay.analysis.server import metrics_of, speculation
from agentx_replay.analysis.window import Window
from agentx_replay.results.server_metrics import read_server_metrics


def accept_length(directory: Path, window: Window | None) -> float | None:
    """Return how many tokens a cycle of the server committed in the window of the level in
    ``directory``; None where it drafted nothing, does not tell, or no window opened.
    """
    if window is None:
        return None
    found = speculation(metrics_of(read_server_metrics(directory), window), window.length_s)
    return None if found is None or found.accept_length <= 1.0 else found.accept_length


def with_drafting(rules: Rules, directory: Path, window: Window | None) -> Rules:
    """Return the rules with what the server drafted, as they are where nothing."""
    accepted = accept_length(directory, window)
    if accepted is None:
        return rules
    return replace(
        rules,
        speculative_decoding=f"the server commits {accepted:.2f} tokens a cycle, and "
        "does not tell whether acceptance is synthetic",
    )
