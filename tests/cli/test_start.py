"""What a command's process is like once its modules are loaded."""

import gc

from agentx_replay.cli import loaded


def test_garbage_is_collected_once_all_is_loaded_but_not_sought_in_what_was() -> None:
    gc.disable()
    try:
        loaded()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.enable()
        gc.unfreeze()
