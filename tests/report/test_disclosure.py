"""What the page's disclosure says of ``sweep.json``."""

from agentx_replay.report.disclosure import differing_facts, in_words

CALIBRATION = {
    "words": 1234, "opening": "able", "cost": {"with_system": 3, "takes_system": True},
    "verification": {"probes": 40, "exact": 40}, "counted_by": None, "ids": 0, "warnings": [],
}  # fmt: skip


def test_a_record_is_told_by_the_names_of_its_fields_with_their_units() -> None:
    rules = {"window_s": 20.0, "start_fraction": [0.25, 0.75], "max_sessions": None,
             "comparable": False, "overridden": ["seed", "window_s"]}  # fmt: skip
    assert in_words(rules) == (
        "window 20 s; start fraction 0.25, 0.75; max sessions none; comparable no; "
        "overridden seed, window_s"
    )
    assert in_words(CALIBRATION) == (
        "words 1,234; opening able; cost with system 3, takes system yes; verification probes 40, "
        "exact 40; counted by none; ids 0; warnings none"
    )


def test_a_value_of_another_kind_is_shown_as_it_stands() -> None:
    assert in_words({"window_s": "long", "new": {}}) == "window long; new -"
    assert in_words({}) == "-"


def test_what_two_runs_differ_in_leaves_out_how_their_levels_were_found() -> None:
    one = {"salt": "a", "probes": [1], "settings": {"bracket": True, "wait": 10.0}, "gpus": 8}
    other = {"salt": "b", "settings": {"bracket": False, "search": {"low": 1}, "wait": 5.0}}
    assert differing_facts([one, other]) == [
        ("settings, wait", "10 / 5"), ("gpus", "8 / not recorded"),
    ]  # fmt: skip
