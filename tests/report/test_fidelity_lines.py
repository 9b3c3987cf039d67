from dataclasses import replace

from agentx_replay.analysis.fidelity import Conformity, Excess, Fidelity, LengthErrors
from agentx_replay.report.fidelity_lines import fidelity_lines

EXACT = LengthErrors(790, 1.0, 0, 0.0, 0.0, 0, 0.0)
OF = Conformity(
    requests=1870,
    order=0,
    joins=0,
    spawns=0,
    gaps=Excess(744, 0, 0.24, 3.06, 9.0),
    prefixes=0,
    overdeclared=0,
    resets_recorded=12,
    resets_sent=12,
    reset_kept_tokens_recorded=1000,
    reset_kept_tokens_sent=1000,
    repeated_prompts=0,
    dropped_requests=0,
    abandoned_requests=0,
    negative_gaps=0,
    missing_durations=0,
    short_block_lists=0,
)
KEPT = Fidelity(
    prompt_lengths=EXACT,
    output_lengths=EXACT,
    reuse_sent=0.9506,
    reuse_recorded=0.9507,
    trees_wanted=8,
    trees_least=8,
    trees_most=8,
    shared_between_plays=0,
    raised_outputs=0,
    lengthened_prompts=0,
    plays=20,
    sessions=20,
    conformity=OF,
)


def test_a_replay_that_kept_all_takes_one_line() -> None:
    assert fidelity_lines(KEPT) == [
        "kept: prompt lengths exact; output lengths exact; reuse 95.06% sent, 95.07% recorded; "
        "resets 12 of 12; gaps late by 0.2 ms (P50), 3.1 ms (P99); order, joins and prefixes of "
        "1,870 requests; 8 trees alive throughout; no block shared between plays"
    ]


def test_what_was_not_kept_has_a_line_of_its_own() -> None:
    broken = replace(KEPT, shared_between_plays=2, conformity=replace(OF, joins=3))
    kept, not_kept = fidelity_lines(broken)
    assert "order, joins" not in kept
    assert not_kept == (
        "NOT KEPT: 3 sent before a subagent they wait for was over; 2 blocks shared between plays"
    )


def test_every_drop_clamp_and_repeat_that_happened_is_counted() -> None:
    counted = replace(
        KEPT,
        plays=23,
        raised_outputs=4,
        conformity=replace(
            OF, dropped_requests=7, missing_durations=105, empty_subagents=2, unawaited_streams=1
        ),
    )
    assert fidelity_lines(counted)[-1] == (
        "counted: 3 plays repeat a session; 4 outputs of no token asked as 1; 7 requests dropped "
        "by the scenario's reading; 105 durations missing and taken as 0; 2 subagents without a "
        "request; 1 agents that no request waits for"
    )


def test_the_idle_seconds_that_caps_skipped_have_a_line() -> None:
    skipped = replace(KEPT, system_skipped_s=1234.56, tree_skipped_s=0.0)
    assert fidelity_lines(skipped)[-1] == (
        "idle time skipped: 1,234.6 s by all lanes together, 0.0 s by single sessions"
    )


def test_length_errors_are_told_by_their_range() -> None:
    off = LengthErrors(790, 0.25, -2, 0.0, 4.0, 5, 0.0012)
    (line,) = fidelity_lines(replace(KEPT, prompt_lengths=off))
    assert "prompt lengths 25.0% exact, off by -2 to +5 (+0.12% in all)" in line


def test_what_the_server_did_not_tell_is_left_out() -> None:
    untold = replace(KEPT, prompt_lengths=None, output_lengths=None, reuse_sent=None)
    (line,) = fidelity_lines(replace(untold, conformity=replace(OF, gaps=None)))
    assert line.startswith("kept: resets 12 of 12; order, joins")
