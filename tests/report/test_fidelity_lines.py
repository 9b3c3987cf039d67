from dataclasses import replace
from pathlib import Path

from fidelity_cases import KEPT, OF
from made_runs import Level, make_run

from agentx_replay.analysis.fidelity import (
    LengthErrors,
    without_prefixes,
)
from agentx_replay.analysis.run import read_run
from agentx_replay.report.fidelity_lines import counted_line, kept_line
from agentx_replay.report.page_text import fidelity_section


def test_a_replay_that_kept_all_takes_one_line() -> None:
    assert kept_line(KEPT) == (
        "lengths exact, reuse 95.1% of 95.1%, gaps late 3.1 ms P99, order, joins, isolation kept"
    )
    assert counted_line(KEPT) is None


def test_reuse_that_differs_says_that_nothing_sent_was_lost() -> None:
    less = replace(KEPT, reuse_sent=0.809, reuse_recorded=0.815)
    assert kept_line(less) == (
        "lengths exact, reuse 80.9% of 81.5% (all kept that its play had sent), gaps late 3.1 ms "
        "P99, order, joins, isolation kept"
    )
    lost = replace(less, conformity=replace(OF, prefixes=1))
    assert "reuse 80.9% of 81.5%, gaps" in kept_line(lost)


def test_what_was_not_kept_is_not_called_kept() -> None:
    broken = replace(KEPT, shared_between_plays=2, conformity=replace(OF, joins=3, resets_sent=11))
    assert kept_line(broken) == (
        "lengths exact, reuse 95.1% of 95.1%, resets 11 of 12, gaps late 3.1 ms P99"
    )


def test_every_drop_clamp_and_repeat_that_happened_is_counted() -> None:
    clamped = replace(
        KEPT,
        plays=23,
        raised_outputs=4,
        conformity=replace(
            OF, dropped_requests=7, missing_durations=105, empty_subagents=2, unawaited_streams=1
        ),
    )
    assert counted_line(clamped) == (
        "3 plays repeat a session; 4 outputs of no token asked as 1; 7 requests dropped "
        "by the scenario's reading; 105 durations missing and taken as 0; 2 subagents without a "
        "request; 1 agent that no request waits for"
    )


def test_the_idle_seconds_that_caps_skipped_are_told() -> None:
    skipped = replace(KEPT, system_skipped_s=1234.56, tree_skipped_s=0.0)
    assert counted_line(skipped) == (
        "idle skipped: 1,234.6 s by all lanes together, 0.0 s by single sessions"
    )


def test_length_errors_are_told_by_their_range() -> None:
    off = LengthErrors(790, 0.25, -2, 0.0, 4.0, 5, 0.0012)
    assert kept_line(replace(KEPT, prompt_lengths=off)).startswith(
        "prompt lengths 25.0% exact, off by -2 to +5 (+0.12% in all), output lengths exact, reuse"
    )


def test_answers_are_counted_in_place_of_prefixes_where_live_output_was_to_be_fed_back() -> None:
    fed_back = replace(without_prefixes(KEPT), answers_fed_back=38, answers_due=40)
    assert kept_line(fed_back) == (
        "lengths exact, answers fed back: 38 of 40, prefixes not compared (--live-history), "
        "gaps late 3.1 ms P99, order, joins, isolation kept"
    )


def test_what_the_server_did_not_tell_is_left_out() -> None:
    untold = replace(KEPT, prompt_lengths=None, output_lengths=None, reuse_sent=None)
    silent = replace(untold, conformity=replace(OF, gaps=None))
    assert kept_line(silent) == "order, joins, isolation kept"


def test_the_page_claims_no_prefix_that_its_play_had_not_sent(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", [Level(8, 100.0, 1000.0)]))
    (level,) = run.levels
    section = fidelity_section(
        replace(run, levels=(replace(level, point=replace(level.point, fidelity=KEPT)),))
    )
    assert (
        "Every request was sent in the order, with the waits of its recording, and kept what it "
        "shares there with prompts its play had sent."
    ) in section
    assert "counts prompts that a play did not send or not yet" in section
