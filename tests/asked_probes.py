"""Answers a calibration's questions out of a function, in place of a server."""

from collections.abc import Callable
from typing import TypeVar

from agentx_replay.prompts.probes import Asking, Conversation, Count, Ids, Probe, Text
from agentx_replay.prompts.template import TemplateCost

_T = TypeVar("_T")
Counting = Callable[[Probe], Count]


def answered(asking: Asking[_T], count: Counting) -> tuple[_T, int]:
    """Return what was found out, and how many probes it took."""
    asked = 0
    try:
        probes = next(asking)
        while True:
            asked += len(probes)
            probes = asking.send([count(probe) for probe in probes])
    except StopIteration as stop:
        return stop.value, asked


def words_of(probe: Probe) -> list[str]:
    """Return every word of a probe, opening ones included."""
    match probe:
        case Text():
            return probe.text.split()
        case Conversation():
            return [word for _, text in probe.messages for word in text.split()]
        case Ids():
            return [str(number) for number in probe.ids]


def templated(cost: TemplateCost, probe: Probe) -> Count:
    """Count a conversation as a server with such a template does, one token a word."""
    assert isinstance(probe, Conversation)
    roles = [role for role, _ in probe.messages]
    calls = roles.count("assistant") if probe.tool_messages else 0
    overhead = calls * (cost.call + cost.result) + (cost.first_call if calls else 0)
    overhead += sum(cost.message(role) for role in (roles[: -2 * calls] if calls else roles))
    return cost.conversation(has_system=probe.has_system) + overhead + probe.words
