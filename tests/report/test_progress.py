"""How a level is going, on a terminal and on what is none."""

import io

import pytest

from agentx_replay.replay.driver import Progress, Stage
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.results.recent import Snapshot

PROGRESS = Progress(Stage.WINDOW, 12.4, in_flight=16, live_plays=32, recycled_plays=3)
RECENT = Snapshot(12_345.0, 0.0201, 0.952, 90, (("http_status", 12), ("connection_reset", 3)))
LOAD = ClientLoad(cpu_share=0.25, loop_lag_p99_ns=1_234_567.0)
LINE = (
    "c=32 window 12 s left | 32 plays | 16 in flight | 1,543 tok/s/GPU | P90 ITL 20.1 ms"
    " | hit 95.2% | 12 http_status, 3 connection_reset | client 25% CPU, lag 1.2 ms"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"), [(io.StringIO(), f"{LINE}\n"), (Terminal(), f"\r\x1b[K{LINE[:100]}")]
)
def test_a_line_is_whole_where_it_stays_and_fits_where_it_is_replaced(
    stream: io.StringIO, shown: str
) -> None:
    screen = ProgressScreen(8, stream)
    screen.level_begins(32)
    screen.show(PROGRESS, RECENT, LOAD)
    assert stream.getvalue() == shown
