"""Four whole runs that are the same on every machine: what numbers and outputs are frozen from.

Each is made anew where it is needed: the bundled sessions against the modelled engine in virtual
time, through the product's own recorder, so that their records have today's columns. What a
virtual run lacks (samples of the client's load, the server's counters) is written by a rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
from made_runs import write_instrument
from record_cases import SECOND, server_rows, write_rows

from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.experiment.sweep import Sweep
from agentx_replay.prompts.prompt import Answer
from agentx_replay.replay.ports import Clock, Dispatch, Response, Status
from agentx_replay.report.progress import ProgressScreen
from agentx_replay.results.layout import Measurement, point_directory, sweep_file
from agentx_replay.results.schema import SERVER
from agentx_replay.scenario import load_scenario
from agentx_replay.shipped import shipped_directory
from agentx_replay.simulator.engine import EngineModel
from agentx_replay.simulator.inprocess import InProcessEndpoint

GPUS = 8
_METRICS_URL = "http://127.0.0.1:8000/metrics"
_SAMPLED_S = 24
_ENDED_S = 60
"""When the client's own samples end: after the last response."""


class Killed(BaseException):
    """The end of a run that nothing catches, as SIGKILL is."""


class Endpoint(InProcessEndpoint):
    """The modelled engine, whose responses pass through ``change`` on their way."""

    def __init__(
        self,
        clock: Clock,
        model: EngineModel,
        change: Callable[[Clock, Dispatch, Response], Response],
    ) -> None:
        super().__init__(clock, model)
        self._change = partial(change, clock)

    async def send(self, dispatch: Dispatch) -> Response:
        return self._change(dispatch, await super().send(dispatch))


def unchanged(_: Clock, __: Dispatch, response: Response) -> Response:
    return response


def with_faults(_: Clock, dispatch: Dispatch, response: Response) -> Response:
    """Of the third start, one of 151 requests fails and one of 97 tells no usage."""
    if "-s3" not in dispatch.request_id or response.status is not Status.OK:
        return response
    number = dispatch.lane * 1009 + dispatch.request_index
    if number % 151 == 0:
        return replace(response, status=Status.FAILED, finish_reason=None, http_status=500)
    if number % 97 == 0:
        return replace(response, prompt_tokens=None, cached_tokens=None)
    return response


def with_answers(_: Clock, dispatch: Dispatch, response: Response) -> Response:
    """Every response says words of its own, but one of 13 that says none."""
    if response.status is not Status.OK or dispatch.request_index % 13 == 0:
        return response
    text = f" {dispatch.request_id}" * dispatch.max_tokens
    return replace(response, answer=Answer(text, dispatch.max_tokens, dispatch.prompt.tokens))


def killed_at_22_s(clock: Clock, _: Dispatch, response: Response) -> Response:
    if clock.now_ns() > 22 * SECOND:
        raise Killed
    return response


def plain(out: Path) -> Path:
    """Three levels of one start, on a server that tells of itself."""
    _sweep(out, (4, 12, 24), [EngineModel()] * 3, unchanged)
    for concurrency in (4, 12, 24):
        _sample(out, concurrency)
    return out


def starts(out: Path) -> Path:
    """Two levels of three starts, of several tokens an event and with a few failures; the server
    is another 5 % slower in each start.
    """
    paces_ms = (20.0, 20.0, 21.0, 21.0, 22.0, 22.0)
    models = [EngineModel(step_base_ms=each, tokens_per_step=3) for each in paces_ms]
    _sweep(out, (4, 24), models, with_faults, starts=3)
    return out


def killed(out: Path) -> Path:
    """One level of which nobody wrote the point: its process was killed in its window."""
    try:
        _sweep(out, (6,), [EngineModel(step_base_ms=30.0)], killed_at_22_s)
    except Killed:
        return out
    raise AssertionError("the run ended by itself")


def live(out: Path) -> Path:
    """Two levels whose answers were fed back."""
    _sweep(out, (2, 12), [EngineModel()] * 2, with_answers, live_history=True)
    return out


RUNS = {each.__name__: each for each in (plain, starts, killed, live)}


def _sweep(
    out: Path,
    levels: tuple[int, ...],
    models: Sequence[EngineModel],
    change: Callable[[Clock, Dispatch, Response], Response],
    *,
    starts: int = 1,
    live_history: bool = False,
) -> None:
    """Run a sweep, each of its measurements against the next of ``models``."""
    coming = iter(models)
    settings = Settings(
        traces=shipped_directory("traces"),
        scenario=load_scenario("quick"),
        concurrency=levels,
        out=out,
        salt="kept",
        command=("sweep", "--virtual"),
        gpus=GPUS,
        starts=starts,
        live_history=live_history,
    )
    target = Target(
        open=lambda clock: Endpoint(clock, next(coming), change),
        facts={"kind": "simulator in virtual time"},
        max_context=models[0].context_limit_tokens,
        virtual=True,
    )
    try:
        for _ in Sweep(settings, target).run(ProgressScreen(GPUS)):
            pass
    finally:
        _anywhere_at_any_time(sweep_file(out))


def _anywhere_at_any_time(file: Path) -> None:
    """Have a run's own description say nothing of this machine and day."""
    fixed = {
        "started_unix_s": 1_790_000_000.0,
        "versions": {"agentx-replay": "0.1.0"},
        "host": {"platform": "test", "cpus": 2},
    }
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | fixed))


def _sample(run: Path, concurrency: int) -> None:
    """Write a client that is little loaded, and a server whose counters rise evenly."""
    point = point_directory(run, Measurement(concurrency))
    write_instrument(
        point,
        [
            (concurrency, 0, s * SECOND, 100_000 + 7_000 * (s % 5), s * SECOND // 8)
            for s in range(_ENDED_S)
        ],
    )
    scrapes = []
    for second in range(_SAMPLED_S):
        lines = [
            f"vllm:num_requests_running {second % concurrency}",
            f"vllm:num_requests_waiting {second % 2}",
            f"vllm:kv_cache_usage_perc {0.02 * second}",
            f"vllm:num_preemptions_total {second // 8}",
            f"vllm:prefix_cache_queries_total {second * 30_000 * concurrency}",
            f"vllm:prefix_cache_hits_total {second * 25_000 * concurrency}",
        ]
        scrapes.append((_METRICS_URL, second * SECOND, lines))
    write_rows(point, SERVER, server_rows(scrapes), Measurement(concurrency))
