"""A calibration is proven on random prompts, told in a line, and read back from its file."""

import random
from dataclasses import asdict, replace

import pytest
from asked_probes import answered, templated
from golden_files import Goldens
from refusals import refuses

from agentx_replay.prompts.calibration import (
    Calibration,
    Room,
    Verification,
    as_document,
    assumed,
    expected_tokens,
    from_document,
    random_conversations,
    random_id_lists,
    random_texts,
    summary_document,
    verify,
)
from agentx_replay.prompts.probes import Conversation, Count, Ids, Probe, ProbeMaker, Text
from agentx_replay.prompts.template import CHATML, TemplateCost
from agentx_replay.prompts.template_cost import flat_cost
from agentx_replay.prompts.vocabulary import common_words
from agentx_replay.reason import Reason

WIDE = Room(context_tokens=131_072, affordable_tokens=20_000)


def probe_maker(seed: int = 1) -> ProbeMaker:
    return ProbeMaker("able", common_words(), random.Random(seed))


def proven(cost: TemplateCost, count: TemplateCost, room: Room = WIDE) -> Verification:
    drawn = random_conversations(probe_maker(), cost, room)
    (_, verification), _ = answered(verify(cost, drawn), lambda probe: templated(count, probe))
    return verification


def test_a_length_is_the_conversation_its_messages_and_its_words() -> None:
    # 3 + 6 + 6 + 6 + 6 of template, 2 + 1 + 0 + 4 words past the opening ones.
    said: list[tuple[str, int]] = [("system", 2), ("user", 1), ("assistant", 0), ("user", 4)]
    probe = probe_maker().conversation(said)  # type: ignore[arg-type]
    assert expected_tokens(probe, CHATML) == 34


def test_the_right_cost_is_exact_on_forty_conversations_of_up_to_sixty_messages() -> None:
    verification = proven(CHATML, CHATML)
    assert (verification.probes, verification.exact) == (40, 40)
    assert verification.largest_error_tokens == 0
    assert verification.most_messages in (59, 60)
    assert verification.longest_tokens == 20_000  # what can be afforded, under half the context


def test_the_longest_conversation_is_near_half_of_a_small_context() -> None:
    assert proven(CHATML, CHATML, Room(8_192, 20_000)).longest_tokens == 4_096


@pytest.mark.parametrize("seed", range(10))
def test_every_conversation_fits_a_context_of_800_tokens(seed: int) -> None:
    drawn = random_conversations(probe_maker(seed), CHATML, Room(800, 20_000))
    assert len(drawn) == 40
    assert max(expected_tokens(probe, CHATML) for probe in drawn) <= 600


def test_a_miss_by_one_token_is_told_with_its_size() -> None:
    # Every assistant's message costs one token more than thought.
    verification = proven(CHATML, replace(CHATML, assistant=7))
    assert verification.exact < verification.probes
    assert verification.largest_error_tokens != 0


def test_a_wrong_constant_is_moved_to_where_most_are_exact() -> None:
    drawn = random_conversations(probe_maker(), CHATML, WIDE)
    counts = replace(CHATML, with_system=5, without_system=2)
    (cost, verification), _ = answered(
        verify(CHATML, drawn), lambda probe: templated(counts, probe)
    )
    assert cost == counts
    assert verification.exact == 40


def test_tool_messages_are_proven_on_conversations_of_calls_and_results() -> None:
    tools = replace(probe_maker(), tool_messages=True)
    cost = replace(CHATML, tool_messages=True, call=18, result=17, first_call=-1)
    drawn = random_conversations(tools, cost, WIDE)
    (_, found), _ = answered(verify(cost, drawn), lambda probe: templated(cost, probe))
    assert (found.probes, found.exact) == (40, 40)
    sent = [p.as_sent() for p in drawn if isinstance(p, Conversation)]
    assert {message["role"] for said in sent for message in said} == {
        "system", "user", "assistant", "tool"
    }  # fmt: skip
    assert all(m.get("tool_calls") for said in sent for m in said if m["role"] == "assistant")


def test_what_the_server_refuses_proves_nothing() -> None:
    drawn = random_conversations(probe_maker(), CHATML, WIDE)
    (_, verification), _ = answered(verify(CHATML, drawn), lambda _: None)
    assert verification == Verification(0, 0, 0, 0, 0)


def test_texts_and_ids_cost_their_opening_and_their_words() -> None:
    room, rng = Room(1_000, 20_000), random.Random(3)

    def with_begin_of_text(probe: Probe) -> Count:
        return 1 + len(probe.text.split()) if isinstance(probe, Text) else None

    def plain(probe: Probe) -> Count:
        return len(probe.ids) if isinstance(probe, Ids) else None

    texts = random_texts(probe_maker(), room)
    (cost, of_texts), _ = answered(verify(flat_cost(2), texts), with_begin_of_text)
    assert (cost.without_system, of_texts.exact, of_texts.longest_tokens) == (2, 40, 502)
    lists = random_id_lists([9, 11, 12, 13], rng, room)
    assert all(isinstance(probe, Ids) and probe.ids[0] == 9 for probe in lists)
    (cost, of_ids), _ = answered(verify(flat_cost(2), lists), plain)
    assert (cost.without_system, of_ids.exact, of_ids.probes) == (1, 40, 40)


def test_no_two_probes_are_alike_so_no_cache_knows_them() -> None:
    drawn = random_conversations(probe_maker(), CHATML, WIDE)
    first_words = {
        probe.messages[0][1] for probe in drawn if isinstance(probe, Conversation) and probe.words
    }
    assert len(first_words) >= 35  # those with an empty first message are alike in it


# --- the value ----------------------------------------------------------------------------------

WARNING = Reason("words-left-out", "so")
EXACT = Calibration(
    words=("acid", "army"),
    opening="able",
    cost=CHATML,
    verification=Verification(40, 40, 0, 4_096, 60),
    source="built-in words",
    counted_by="/tokenize",
    model="tiny",
    api="chat",
)


def test_it_is_told_in_a_line_with_how_far_it_is_off_and_every_warning(goldens: Goldens) -> None:
    missed = replace(EXACT, verification=Verification(40, 31, -2, 4_096, 60), warnings=(WARNING,))
    never_made = assumed("tiny", "chat", WARNING)
    lines = [*EXACT.lines(), *missed.lines(), *never_made.lines()]
    assert [(each.exact, len(each.lines())) for each in (EXACT, missed, never_made)] == [
        (True, 1), (False, 2), (False, 2),
    ]  # fmt: skip
    goldens.check_text("words/calibration", "\n".join(lines) + "\n")


def test_a_calibration_reads_back_equal() -> None:
    with_ids = replace(EXACT, ids=(7, 8, 9), warnings=(WARNING,), api="completions")
    tools = replace(CHATML, tool_messages=True, call=18, result=17, first_call=-1)
    for calibration in (EXACT, with_ids, replace(EXACT, cost=tools)):
        assert from_document(as_document(calibration), "c.json") == calibration


def test_one_of_plain_messages_says_nothing_of_tools_as_before_there_were_any() -> None:
    assert as_document(EXACT)["cost"] == {
        "with_system": 3,
        "without_system": 3,
        "system": 6,
        "user": 6,
        "assistant": 6,
        "takes_system": True,
        "assumed": True,
    }


def test_its_summary_has_numbers_in_place_of_lists() -> None:
    document = summary_document(replace(EXACT, ids=(7, 8, 9)))
    assert (document["words"], document["ids"]) == (2, 3)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 2}, "version"),
        ({"words": []}, "words"),
        ({"words": ["acid", "längs"]}, "words"),
        ({"words": [7]}, "words"),
        ({"ids": [1]}, "id"),
        ({"ids": [7, 8, -9]}, "ids[2] is -9"),
        ({"cost": {"user": 1}}, "cost"),
        ({"opening": ["able"]}, "opening"),
        ({"opening": "two words"}, "opening"),
        ({"api": "both"}, "api"),
        ({"warnings": ["words left out"]}, "warnings"),
        ({"cost": asdict(CHATML) | {"user": 6.5}}, "cost.user"),
        ({"cost": asdict(CHATML) | {"user": -1}}, "user is -1"),
        ({"cost": asdict(CHATML) | {"user": 2**31}}, "user is 2147483648"),
        ({"cost": asdict(CHATML) | {"assumed": 0}}, "cost.assumed"),
        ({"cost": asdict(CHATML) | {"call": 3, "first_call": -4}}, "first_call is -1"),
        ({"verification": None}, "verification"),
    ],
)
def test_a_file_of_something_else_is_refused(change: dict[str, object], named: str) -> None:
    with refuses("not-a-calibration", "c.json", named):
        from_document(as_document(EXACT) | change, "c.json")


@pytest.mark.parametrize("document", [None, [], "text", {}])
def test_so_is_no_calibration_at_all(document: object) -> None:
    with refuses("not-a-calibration"):
        from_document(document, "c.json")
