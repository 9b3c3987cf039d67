"""What a play's prompts keep, told from the names of the blocks that were sent."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from stream_graphs import graph, turn
from virtual_replay import SCENARIO, S, replay

from agentx_replay.replay.sent_blocks import Kept, SentBlocks, common_blocks


def ids(*names: int) -> NDArray[np.uint64]:
    return np.array(names, np.uint64)


def test_a_first_prompt_keeps_nothing_and_the_next_what_it_begins_with() -> None:
    sent = SentBlocks()
    assert sent.send(0, ids(1, 2, 3)) == Kept(0, 0)
    assert sent.send(0, ids(1, 2, 3, 4)) == Kept(3, 3)
    assert sent.send(0, ids(1, 2, 9)) == Kept(2, 2)


def test_a_conversation_may_keep_what_another_conversation_of_the_play_sent() -> None:
    sent = SentBlocks()
    sent.send(0, ids(1, 2, 3))
    assert sent.send(1, ids(1, 2, 7)) == Kept(2, 0)
    # Back on conversation 0: its own last prompt began with 1, 2; conversation 1 sent the 7.
    assert sent.send(0, ids(1, 2, 7, 8)) == Kept(3, 2)


def test_a_prompt_sent_again_is_kept_whole() -> None:
    sent = SentBlocks()
    sent.send(0, ids(1, 2))
    assert sent.send(0, ids(1, 2)) == Kept(2, 2)
    assert sent.send(0, ids()) == Kept(0, 0)


def test_the_blocks_that_two_prompts_have_in_common() -> None:
    assert common_blocks(ids(1, 2, 3), ids(1, 2, 4, 5)) == 2
    assert common_blocks(ids(1, 2), ids(1, 2, 3)) == 2
    assert common_blocks(ids(), ids(1)) == 0


def test_the_idle_time_skipped_since_the_conversations_previous_end_goes_with_a_request() -> None:
    session = graph([turn(0, 0), turn(1, 60, gap_s=50.0), turn(2, 70, gap_s=3.0)])
    run = replay([session], scenario=replace(SCENARIO, system_idle_cap_s=10.0))
    # Ended at 1, due at 51, fired at 11: 40 s skipped. The 3 s after it are under the cap.
    assert [d.skipped_ns for d, _ in run.log.requests[:3]] == [0, 40 * S, 0]
