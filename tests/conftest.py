"""What tests of every layer share."""

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

# Where Python is told to keep no bytecode, each of the hundred processes that tests start compiles
# every module again, and each worker of pytest rewrites every assertion: half of the suite's CPU.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# As the command line does: numpy's linear algebra starts a thread a core, and an idle one spins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest  # noqa: E402
from golden_files import Goldens  # noqa: E402
from hypothesis import settings  # noqa: E402

# How long an example takes says what else the machine does. .ci/long draws the many.
settings.register_profile("few", deadline=None, max_examples=25)
settings.register_profile("many", deadline=None, max_examples=500)
settings.load_profile("few")

_SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a third of the time a test waits for a server or a window."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of what the marks leave out whole."""
    left_out = "not engine" in config.getoption("markexpr")
    return True if collection_path.name == "engines" and left_out else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Have each worker begin with another file. In a fresh clone each file's assertions are to be
    rewritten: so a worker does a third of them and reads what the others have written.
    """
    report = yield
    if isinstance(collector, pytest.Directory):
        us = getattr(collector.config, "workerinput", {"workerid": "gw0", "workercount": 1})
        first = int(us["workerid"][2:]) * len(report.result) // us["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: what is loaded stays, and would be walked each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what waits for processes and windows, so that no worker is alone with it at last.

    A file stays whole in one worker, and its fixtures of the module are made once.
    """
    first = ("faults", "cli", "experiment", "report")
    items.sort(key=lambda item: (item.path.parent.name not in first, item.path))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write the files of tests/goldens anew, in place of comparing with them",
    )


@pytest.fixture(scope="session")
def goldens(pytestconfig: pytest.Config) -> Goldens:
    """What is frozen in files."""
    return Goldens(update=pytestconfig.getoption("--update-goldens"))


@pytest.fixture(scope="session")
def slow_server() -> Iterator[str]:
    """The URL of a simulator for runs that are to last: its tokens take little of the machine."""
    from agentx_replay.simulator.engine import EngineModel
    from agentx_replay.simulator.process import launch_simulator
    from agentx_replay.simulator.server import ServerConfig

    process = launch_simulator(ServerConfig(engine=EngineModel(step_base_ms=20.0)))
    yield process.url
    process.close()


@pytest.fixture(scope="session", autouse=True)
def _bundled_sessions_are_read_once() -> Iterator[None]:
    """Parse the bundled sessions, which nobody changes, for the first run of this process alone."""
    from agentx_replay.experiment import sessions
    from agentx_replay.shipped import shipped_directory
    from agentx_replay.traces.corpus import read_corpus

    bundled = cache(read_corpus)

    def read(path: Path, *, skip_bad: bool = False) -> object:
        known = path == shipped_directory("traces")
        return (bundled if known else read_corpus)(path, skip_bad=skip_bad)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sessions, "read_corpus", read)
        yield


@pytest.fixture(scope="session", autouse=True)
def _levels_on_disk_are_measured_once() -> Iterator[None]:
    """Give a level's numbers again for the same files, and for copies of them: a run that many
    tests report or compare is read each time, and reading it is most of that.
    """
    from agentx_replay.analysis import run
    from agentx_replay.analysis.point import Point, stored_point
    from agentx_replay.results.run_directory import StoredPoint

    found: dict[object, Point] = {}

    def measured(stored: StoredPoint) -> Point:
        files = sorted(path for path in stored.directory.rglob("*") if path.is_file())
        stats = ((file.name, (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files)
        key = (stored.concurrency, stored.start, str(stored.document), *stats)
        if key not in found:
            found[key] = stored_point(stored)
        return replace(found[key], stored=stored)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "stored_point", measured)
        yield


@pytest.fixture(scope="session")
def small_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of three sessions of a hundred turns, to be read in a moment."""
    from small_corpus import corpus, request, session

    directory = tmp_path_factory.mktemp("small") / "traces"
    turns = [request(2 * n, range(10 + n), out=4) for n in range(100)]
    corpus(directory, *(session(f"s{n}", *turns) for n in range(3)))
    return directory


@pytest.fixture(scope="session")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """What returns the directory of one of the runs of ``kept_runs``, made once, by its name."""
    import kept_runs

    place = tmp_path_factory.mktemp("kept")
    return cache(lambda name: kept_runs.RUNS[name](place / name))


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The directory of recorded sessions, which are not part of the project."""
    directory = _SHARED / "traces" / "real"
    if not directory.is_dir():
        pytest.skip("the recorded sessions are not here")
    return directory
