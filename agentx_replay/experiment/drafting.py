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


def with_drafting(rules: Rules, directory: Path, window: Window | None) -> Rules:
    """Return the rules with what the server drafted in the window of the level in ``directory``;
    as they are where it drafted nothing, does not tell, or no window opened.
    """
    if window is None:
        return rules
    found = speculation(metrics_of(read_server_metrics(directory), window), window.length_s)
    if found is None or found.accept_length <= 1.0:
        return rules
    return replace(
        rules,
        speculative_decoding=f"the server commits {found.accept_length:.2f} tokens a cycle, and "
        "does not tell whether acceptance is synthetic",
    )
