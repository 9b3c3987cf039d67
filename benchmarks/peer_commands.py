"""What each peer is asked to do, in its own words, and where it says what it measured.

Every peer is asked for the same: ``streams`` at once, each sending ``rounds`` streamed chat
requests one after the other, of ``tokens`` tokens each. Those that replay recordings are given a
corpus that amounts to it (``corpus_of``). Not for: running them (``peers.py``).
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CLIENT = str(HERE / "peer_client.py")
PROMPT_TOKENS = 56
_WARM_UP_REQUESTS = 11
"""What the harness sends of a recording before its window: a primer and ten more."""


@dataclass(frozen=True, slots=True)
class Load:
    """The same for all; ``every_ms`` is the server's time between two tokens of a stream."""

    streams: int
    rounds: int
    tokens: int
    every_ms: float

    @property
    def requests(self) -> int:
        """Requests of all streams together."""
        return self.streams * self.rounds

    @property
    def seconds(self) -> int:
        """What the rounds take when nobody is late."""
        return round(self.rounds * self.tokens * self.every_ms / 1e3)


@dataclass(frozen=True, slots=True)
class At:
    """Where one run takes place: the server, the peer's programs, and folders.

    ``folder`` is the run's own, empty at its start; ``home`` is HOME, where some keep what an
    earlier run made; ``tokenizer`` holds a tokenizer.json; ``corpus`` recordings as plain JSON.
    """

    url: str
    model: str
    programs: Path
    folder: Path
    home: Path
    tokenizer: Path
    corpus: Path


class Kind(Enum):
    """What a peer is: it says with whom it can be compared."""

    TOOL = "load tool"
    LIBRARY = "library, driven by a loop of ours"
    COMPILED = "compiled, stamps no token"


Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer. ``install`` is a requirement for pip, or a Debian package for a compiled one.

    ``itl`` reads from what a run left in its folder the P90 response ITL in s; None where the peer
    does not measure it. ``traces`` replays a corpus at concurrency 8; one that ``keeps_data``
    writes what it made of a corpus below HOME, and its second start finds it. ``least_python`` is
    the oldest Python it installs under.
    """

    name: str
    install: str
    kind: Kind
    load: Callable[[Load, At], Command]
    itl: Callable[[Path], float] | None
    traces: Callable[[At], Command] | None = None
    keeps_data: bool = False
    least_python: tuple[int, int] = (3, 11)


# --- the load tools -----------------------------------------------------------------------------


def _aiperf(program: str, at: At, *more: str) -> Command:
    return (
        *(str(at.programs / program), "profile", "--model", at.model, "--url", at.url),
        *("--tokenizer", str(at.tokenizer), "--endpoint-type", "chat", "--streaming"),
        *("--use-server-token-count", "--random-seed", "42", "--ui", "none"),
        *("--output-artifact-dir", str(at.folder), *more),
    )


def _recordings(at: At, streams: int, seconds: int) -> Command:
    return (
        *("--custom-dataset-type", "weka_trace", "--input-file", str(at.corpus)),
        *("--concurrency", str(streams), "--benchmark-duration", str(seconds)),
        "--unsafe-override",
    )


def aiperf(load: Load, at: At) -> Command:
    """Synthetic prompts, so many requests at a fixed concurrency."""
    return _aiperf(
        *("aiperf", at, "--concurrency", str(load.streams)),
        *("--request-count", str(load.requests)),
        *("--isl", str(PROMPT_TOKENS), "--osl", str(load.tokens)),
    )


def agentx_harness(load: Load, at: At) -> Command:
    """It replays recordings and nothing else."""
    return _aiperf("agentx", at, *_recordings(at, load.streams, load.seconds))


def guidellm(load: Load, at: At) -> Command:
    """Synthetic prompts, so many requests at a fixed concurrency."""
    data = f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={load.tokens}"
    profile = f"kind=concurrent,streams={load.streams}"
    limit = f"kind=max_requests,count={load.requests}"
    return (*_guidellm(at, data, profile), "--constraint", limit)


def _guidellm(at: At, data: str, profile: str) -> Command:
    server = f"kind=openai_http,target={at.url},model={at.model}"
    return (
        *(str(at.programs / "guidellm"), "run", "--disable-console", "--data", data),
        *("--backend", f"{server},request_format=/v1/chat/completions", "--profile", profile),
        *("--tokenizer", f"kind=hf_auto,model={at.tokenizer}"),
        *("--output", f"kind=json,path={at.folder}/guidellm.json"),
    )


def _guidellm_traces(at: At) -> Command:
    """One file with a recording a line."""
    lines = [json.dumps(json.loads(path.read_text())) for path in sorted(at.corpus.iterdir())]
    sessions = at.folder / "sessions.jsonl"
    sessions.write_text("\n".join(lines))
    source = {"kind": "json_file", "path": str(sessions)}
    data = {"kind": "weka", "source": source, "min_concurrent_sessions": 8}
    return _guidellm(at, json.dumps(data), "kind=replay")


def inference_perf(load: Load, at: At) -> Command:
    """Chats of one length, so many requests at a fixed concurrency."""
    prompts = {
        "num_groups": 1,
        "num_prompts_per_group": load.requests,
        "system_prompt_len": 1,
        "question_len": PROMPT_TOKENS,
        "output_len": load.tokens,
    }
    data = {"type": "shared_prefix", "shared_prefix": prompts}
    stage = {"num_requests": load.requests, "concurrency_level": load.streams}
    return _inference_perf(at, data, {"type": "concurrent", "stages": [stage]})


def _inference_perf_traces(at: At) -> Command:
    replay = {
        "trace_directory": str(at.corpus),
        "use_static_model": True,
        "static_model_name": at.model,
    }
    data = {"type": "weka_trace_replay", "weka_trace_replay": replay}
    load = {"type": "trace_session_replay", "stages": [{"concurrent_sessions": 8}]}
    return _inference_perf(at, data, load)


def _inference_perf(at: At, data: dict[str, Any], load: dict[str, Any]) -> Command:
    config = {
        "api": {"type": "chat", "streaming": True},
        "data": data,
        "load": load,
        "server": {"type": "vllm", "model_name": at.model, "base_url": at.url},
        "tokenizer": {"pretrained_model_name_or_path": str(at.tokenizer)},
        "storage": {"local_storage": {"path": str(at.folder / "reports")}},
    }
    path = at.folder / "config.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return (str(at.programs / "inference-perf"), "--config_file", str(path))


# --- libraries, and what is compiled ------------------------------------------------------------


def _library(name: str) -> Callable[[Load, At], Command]:
    def command(load: Load, at: At) -> Command:
        numbers = map(str, (load.streams, load.rounds, load.tokens))
        return (str(at.programs / "python"), "-P", CLIENT, name, at.url, at.model, *numbers)

    return command


def hey(load: Load, at: At) -> Command:
    """Responses read to their end, as bytes: no events, no tokens, no stamps."""
    messages = [{"role": "user", "content": "word " * PROMPT_TOKENS}]
    body = {"model": at.model, "messages": messages, "max_tokens": load.tokens, "stream": True}
    return (
        *(str(at.programs / "hey"), "-n", str(load.requests), "-c", str(load.streams), "-t", "0"),
        *("-m", "POST", "-T", "application/json", "-d", json.dumps(body)),
        f"{at.url}/v1/chat/completions",
    )


# --- ours ---------------------------------------------------------------------------------------


def agentx_replay(load: Load, at: At) -> Command:
    """The whole command: calibration, warm-up, records on disk, report."""
    return _ours(at, load.streams, load.seconds)


def _ours(at: At, streams: int, window_s: int) -> Command:
    return (
        *(str(at.programs / "python"), "-m", "agentx_replay", "run", "--scenario", "quick"),
        *("--override", f"window_s={window_s}", "--url", at.url, "--traces", str(at.corpus)),
        *("--concurrency", str(streams), "--json", "--out", str(at.folder / "run")),
    )


def corpus_of(load: Load, folder: Path) -> Path:
    """Write recordings whose replay is the load, one a stream, and return their folder.

    Every request has the same prompt and no pause before it. A replay starts at up to three
    quarters of a recording and sends its warm-up first; the last quarter holds what remains. The
    times are small because its window begins with the recorded distances between the lanes.
    """
    folder.mkdir()
    request = {"type": "n", "model": "m", "in": 128, "out": load.tokens, "hash_ids": [1, 2]}
    count = 4 * (_WARM_UP_REQUESTS + load.rounds + 1)
    requests = [{"t": number * 0.002, **request, "api_time": 0.001} for number in range(count)]
    for stream in range(load.streams):
        session = {
            "id": f"s{stream}",
            "models": ["m"],
            "block_size": 64,
            "hash_id_scope": "local",
            "tool_tokens": 0,
            "system_tokens": 0,
            "requests": requests,
        }
        (folder / f"s{stream}.json").write_text(json.dumps(session))
    return folder


# --- what they say ------------------------------------------------------------------------------


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _printed_json(folder: Path) -> Any:
    """The last line that a command printed on standard output, as JSON."""
    return json.loads(re.findall(r"^\{.*\}$", (folder / "printed").read_text(), re.MULTILINE)[-1])


def _aiperf_itl(folder: Path) -> float:
    return float(_json(folder / "profile_export_aiperf.json")["inter_token_latency"]["p90"]) / 1e3


def _guidellm_itl(folder: Path) -> float:
    metrics = _json(folder / "guidellm.json")["benchmarks"][0]["metrics"]
    return float(metrics["inter_token_latency_ms"]["successful"]["percentiles"]["p90"]) / 1e3


def _inference_perf_itl(folder: Path) -> float:
    summary = next((folder / "reports").glob("summary_lifecycle_metrics.json"))
    return float(_json(summary)["successes"]["latency"]["time_per_output_token"]["p90"])


def _library_itl(folder: Path) -> float:
    return float(_printed_json(folder)["response_itl_p90_s"])


def _our_itl(folder: Path) -> float:
    return float(_printed_json(folder)["points"][0]["response_itl_p90_s"])


OURS = "agentx-replay"
BARE = "agentx-replay, client alone"
PEERS = (
    Peer(OURS, "", Kind.TOOL, agentx_replay, _our_itl, lambda at: _ours(at, 8, 20)),
    Peer(BARE, "", Kind.LIBRARY, _library("agentx_replay"), _library_itl),
    Peer("agentx-harness", "agentx-harness==1.0.12", Kind.TOOL, agentx_harness, _aiperf_itl,
         lambda at: _aiperf("agentx", at, *_recordings(at, 8, 20)), keeps_data=True),
    Peer("aiperf", "aiperf==0.13.0", Kind.TOOL, aiperf, _aiperf_itl,
         lambda at: _aiperf("aiperf", at, *_recordings(at, 8, 20)), keeps_data=True),
    Peer("guidellm", "guidellm==0.8.1", Kind.TOOL, guidellm, _guidellm_itl, _guidellm_traces),
    Peer("inference-perf", "inference-perf==0.7.0", Kind.TOOL, inference_perf, _inference_perf_itl,
         _inference_perf_traces, least_python=(3, 12)),
    Peer("openai", "openai==3.57.0", Kind.LIBRARY, _library("openai"), _library_itl),
    Peer("httpx", "httpx==0.28.1", Kind.LIBRARY, _library("httpx"), _library_itl),
    Peer("hey", "hey", Kind.COMPILED, hey, None),
)  # fmt: skip
