"""A sweep's screen that keeps nothing, for those of tests to say what they keep."""

from agentx_replay.replay.driver import Progress
from agentx_replay.replay.instrument import ClientLoad
from agentx_replay.results.recent import Snapshot


class BlankScreen:
    """The ``Screen`` port without a screen."""

    def say(self, line: str) -> None: ...

    def levels_left(self, levels: int, window_s: float) -> None: ...

    def level_begins(self, concurrency: int, start: int, starts: int) -> None: ...

    def show(self, progress: Progress, recent: Snapshot, load: ClientLoad) -> None: ...

    def level_ends(self) -> None: ...
