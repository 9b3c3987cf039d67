"""What a fidelity report says of a replay that kept all; tests change one thing of it."""

from agentx_replay.analysis.fidelity import Conformity, Excess, Fidelity, LengthErrors

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
