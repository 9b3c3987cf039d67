"""The statistics of a corpus as a person and as a program see them."""

import orjson
from golden_files import Goldens

from agentx_replay.report.tables import sections_text
from agentx_replay.report.traces_table import as_dict, statistics_sections
from agentx_replay.traces.model import ReadingNotes
from agentx_replay.traces.statistics import CorpusStatistics, Percentiles, SessionStatistics

LINE = Percentiles(1.0, 2.5, 1234567.0)


def statistics(**changes: object) -> CorpusStatistics:
    values: dict[str, object] = {
        "name": "c",
        "fingerprint": "0123456789abcdef",
        "sessions": (
            SessionStatistics("one", 3, 1, 5000, 70, 2000, 80, 60, 1, 2),
            SessionStatistics("a-name-longer-than-its-column-is", 1, 0, 900, 1, 901, 20, 0, 0, 0),
        ),
        "total": SessionStatistics("c", 4, 1, 5900, 71, 2000, 100, 60, 1, 2),
        "requests_per_session": LINE,
        "input_tokens_per_request": LINE,
        "output_tokens_per_request": LINE,
        "peak_tokens_per_session": LINE,
        "gap_s": LINE,
        "subagent_sessions": 1,
        "families": (),
        "notes": ReadingNotes(),
        "skipped": (),
    }
    return CorpusStatistics(**{**values, **changes})  # type: ignore[arg-type]


def test_the_table_says_totals_distributions_sessions_and_what_was_odd(goldens: Goldens) -> None:
    odd = statistics(
        notes=ReadingNotes((("request.foo", 4),), 1200, 2, 3, 1),
        families=(tuple(f"session-{n}" for n in range(20)),),
        skipped=(("/a/b.json", "/a/b.json: this is empty"),),
    )
    text = sections_text(statistics_sections(odd), 100)
    goldens.check_text("words/statistics", text + "\n")


def test_json_holds_sums_ratios_and_every_session() -> None:
    found = orjson.loads(orjson.dumps(as_dict(statistics(notes=ReadingNotes((("x", 4),), 1200)))))
    assert (found["requests"], found["input_tokens"], found["output_tokens"]) == (4, 5900, 71)
    assert (found["reuse"], found["resets"], found["edits"], found["subagents"]) == (0.6, 1, 2, 1)
    assert found["sessions"][0]["reuse"] == 0.75
    assert found["gap_s"] == {"p50": 1.0, "p90": 2.5, "max": 1234567.0}
    assert (found["unknown_keys"], found["missing_durations"]) == ({"x": 4}, 1200)
