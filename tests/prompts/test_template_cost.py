"""What a template costs, from the lengths of a few conversations."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from asked_probes import answered, templated

from agentx_replay.prompts.probes import Conversation, Count, Probe, ProbeMaker
from agentx_replay.prompts.template import CHATML, TemplateCost
from agentx_replay.prompts.template_cost import (
    ToolMessagesError,
    flat_cost,
    measure_template,
    measure_tools,
)
from agentx_replay.prompts.vocabulary import common_words

# Counted by hand from the published templates: tokens around the words, opening word included.
DEEPSEEK = TemplateCost(with_system=2, without_system=2, system=1, user=2, assistant=3)
LLAMA = TemplateCost(with_system=5, without_system=5, system=6, user=6, assistant=6)
DEFAULT_SYSTEM = TemplateCost(with_system=3, without_system=16, system=6, user=6, assistant=6)


def probe_maker() -> ProbeMaker:
    return ProbeMaker("able", common_words(), random.Random(2))


def measured(cost: TemplateCost) -> TemplateCost | None:
    return answered(measure_template(probe_maker()), lambda probe: templated(cost, probe))[0]


def lengths(cost: TemplateCost) -> tuple[int, ...]:
    """What a cost says of conversations: the only thing that lengths can tell."""
    pair = cost.user + cost.assistant
    return cost.without_system + cost.user, cost.with_system + cost.system + cost.user, pair


@pytest.mark.parametrize("cost", [CHATML, DEEPSEEK, LLAMA, DEFAULT_SYSTEM])
def test_the_lengths_of_every_conversation_are_recovered(cost: TemplateCost) -> None:
    found = measured(cost)
    assert found is not None
    assert not found.assumed
    assert found.takes_system
    assert lengths(found) == lengths(cost)
    # No overhead is charged before it arises: the words of a second message stand, on the wire, at
    # least as far in as they are laid out, so all that is charged for the first is no more than
    # what the server puts before them.
    assert 0 <= found.user <= cost.without_system + cost.user
    assert 0 <= found.system <= cost.with_system + cost.system
    assert min(found.with_system, found.without_system, found.assistant) >= 0


def test_chatml_is_recovered_message_by_message_from_seven_conversations() -> None:
    found = answered(measure_template(probe_maker()), lambda probe: templated(CHATML, probe))
    assert found == (TemplateCost(3, 3, 6, 6, 6, takes_system=True, assumed=False), 7)


def strict(probe: Probe) -> Count:
    return None if probe.has_system else templated(DEEPSEEK, probe)


def ignoring(probe: Probe) -> Count:
    """Leave a system message's words out of the count."""
    assert isinstance(probe, Conversation)
    said = tuple(message for message in probe.messages if message[0] != "system")
    return templated(CHATML, Conversation(said, sum(len(text.split()) - 1 for _, text in said)))


@pytest.mark.parametrize("count", [strict, ignoring])
def test_a_system_message_that_is_refused_or_not_counted_is_put_into_the_users(
    count: Callable[[Probe], Count],
) -> None:
    found, _ = answered(measure_template(probe_maker()), count)
    assert found is not None
    assert not found.takes_system


def test_a_long_conversation_that_does_not_fit_is_done_without() -> None:
    def short(probe: Probe) -> Count:
        return templated(CHATML, probe) if probe.message_count < 20 else None

    found, _ = answered(measure_template(probe_maker()), short)
    assert found == TemplateCost(3, 3, 6, 6, 6, takes_system=True, assumed=False)


def test_a_template_that_refuses_answers_has_no_cost() -> None:
    def users_only(probe: Probe) -> Count:
        return templated(CHATML, probe) if probe.message_count == 1 else None

    assert answered(measure_template(probe_maker()), users_only)[0] is None


def test_a_prompt_without_messages_costs_its_opening_once() -> None:
    cost = flat_cost(2)
    assert (cost.without_system, cost.user, cost.assistant, cost.takes_system) == (2, 0, 0, False)


# --- with tool messages -------------------------------------------------------------------------

# Qwen 3's own template, by hand: a call is <|im_start|> assistant \n <tool_call> \n {" name ":
# " bash ", " arguments ": {" command ": " able … able "} } \n </tool_call> <|im_end|> \n or so, and
# a result nearly as much; together 35 tokens.
CALLING = replace(CHATML, assumed=False, tool_messages=True, call=18, result=17)
# DeepSeek V3's own opens its first call otherwise than the later ones.
FIRST_ODD = replace(DEEPSEEK, assumed=False, tool_messages=True, call=12, result=12, first_call=-1)


def tool_maker() -> ProbeMaker:
    return replace(probe_maker(), tool_messages=True)


@pytest.mark.parametrize("cost", [CALLING, FIRST_ODD])
def test_a_pair_of_call_and_result_is_recovered_and_what_the_first_costs_more(
    cost: TemplateCost,
) -> None:
    plain = replace(cost, tool_messages=False, call=0, result=0, first_call=0)
    found, probes = answered(
        measure_tools(tool_maker(), plain), lambda probe: templated(cost, probe)
    )
    assert (found, probes) == (cost, 4)


def test_a_pair_is_recovered_where_twenty_do_not_fit() -> None:
    def short(probe: Probe) -> Count:
        return templated(CALLING, probe) if probe.message_count < 20 else None

    found, _ = answered(measure_tools(tool_maker(), CHATML), short)
    assert (found.call, found.result, found.first_call) == (18, 17, 0)


def test_refused_tool_messages_have_no_cost() -> None:
    def users_only(probe: Probe) -> Count:
        return templated(CHATML, probe) if probe.message_count == 1 else None

    with pytest.raises(ToolMessagesError, match="refuses tool messages"):
        answered(measure_tools(tool_maker(), CHATML), users_only)


@pytest.mark.parametrize("dropped", ["assistant", "user"])
def test_a_template_that_leaves_the_words_of_a_call_or_a_result_out_is_told(dropped: str) -> None:
    def dropping(probe: Probe) -> Count:
        assert isinstance(probe, Conversation)
        lost = sum(len(text.split()) - 1 for role, text in probe.messages[1:] if role == dropped)
        return templated(CALLING, replace(probe, words=probe.words - lost))

    with pytest.raises(ToolMessagesError, match="leaves the words of tool messages out"):
        answered(measure_tools(tool_maker(), CHATML), dropping)
