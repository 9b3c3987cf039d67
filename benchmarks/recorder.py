"""Record 10 million tokens: bytes a token on disk, CPU a token, peak memory.

    python -m benchmarks.recorder [tokens] [--write]

The arrivals carry the jitter of a busy server: 20 ms a token, lognormal with 20 % spread, and a
stall of 0.3 s in 1 of 500. Targets: at most 2.5 bytes a token after compaction and 50 ns a token in
the closed loop's thread, of CPU: by the clock other processes count too. ``--write`` replaces
``benchmarks/results/recorder.json``.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agentx_replay.analysis.responses import Window, records_of
from agentx_replay.analysis.tokens import latency_series
from agentx_replay.prompts.prompt import Prompt
from agentx_replay.replay.ports import Dispatch, Phase, Response, Status
from agentx_replay.results.histograms import write_log
from agentx_replay.results.layout import Measurement
from agentx_replay.results.recorder import Recorder
from agentx_replay.results.schema import REQUESTS
from benchmarks.results_file import write_result

BATCH = 2_000
MEAN_LOG_TOKENS, SPREAD_LOG_TOKENS = 5.5, 1.0
LANES = 256
START_NS = 1_000_000_000_000


def responses(rng: np.random.Generator, first: int) -> Iterator[tuple[Dispatch, Response]]:
    """Yield ``BATCH`` responses of lognormal length."""
    lengths = rng.lognormal(MEAN_LOG_TOKENS, SPREAD_LOG_TOKENS, BATCH).astype(int) + 1
    for number, length in enumerate(lengths.tolist(), first):
        send_ns = START_NS + number * 20_000_000 + int(rng.integers(20_000_000))
        gaps_s = 0.020 * np.exp(rng.normal(0, 0.2, length))
        gaps_s[rng.random(length) < 0.002] += 0.3
        gaps_s[0] = 1.0
        arrival_ns = send_ns + np.cumsum(gaps_s * 1e9).astype(np.int64)
        yield _dispatch(number, send_ns, length), _response(send_ns, arrival_ns, length)


def _dispatch(number: int, send_ns: int, length: int) -> Dispatch:
    lane, turn = number % LANES, number // LANES
    conversation_id = f"3f9a6c01-c{LANES}-l{lane}-p0-s0"
    prompt = Prompt(100_000 + turn * 700, 99_000 + turn * 700, np.empty(0, np.uint64), bytes)
    return Dispatch(
        request_id=f"{conversation_id}-t{turn}",
        play_id=conversation_id[:-3],
        conversation_id=conversation_id,
        concurrency=LANES,
        lane=lane,
        play_number=0,
        session_id=f"session-{lane}",
        conversation=0,
        turn=turn,
        request_index=turn,
        phase=Phase.WINDOW,
        intended_start_ns=send_ns - 100_000,
        gap_s=3.25,
        recorded_input_tokens=prompt.tokens,
        recorded_output_tokens=length,
        shared_blocks=prompt.reusable_tokens // 64,
        max_tokens=length,
        prompt=prompt,
    )


def _response(send_ns: int, arrival_ns: np.ndarray, length: int) -> Response:
    return Response(
        status=Status.OK,
        send_ns=send_ns,
        sent_ns=send_ns + 90_000,
        first_byte_ns=int(arrival_ns[0]) - 50_000,
        end_ns=int(arrival_ns[-1]) + 120_000,
        arrival_ns=arrival_ns,
        arrival_tokens=np.ones(length, np.int32),
        prompt_tokens=100_000,
        cached_tokens=99_000,
        completion_tokens=length,
        finish_reason="length",
        http_status=200,
    )


def main() -> None:
    """Record, compact, read back, fold; print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--write", action="store_true", help="replace the results file")
    asked = parser.parse_args()
    wanted = asked.tokens
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        point = Path(name)
        recorder = Recorder(point, Measurement(LANES), origin_ns=START_NS)
        tokens = count = 0
        loop_ns = loop_cpu_ns = worst_ns = 0
        while tokens < wanted:
            for dispatch, response in responses(rng, count):
                before_ns, before_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
                recorder.record(dispatch, response)
                loop_cpu_ns += time.thread_time_ns() - before_cpu_ns
                took_ns = time.perf_counter_ns() - before_ns
                loop_ns += took_ns
                worst_ns = max(worst_ns, took_ns)
                tokens += len(response.arrival_ns)
            count += BATCH
        recorder.close()
        parts = REQUESTS.files(point)
        part_bytes = sum(path.stat().st_size for path in parts)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started = time.perf_counter()
        REQUESTS.compact(point)
        compact_s = time.perf_counter() - started
        compact_bytes = sum(path.stat().st_size for path in REQUESTS.files(point))
        compact_peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started = time.perf_counter()
        read = records_of(REQUESTS.at(point).groups)
        window = Window(0, int(read.responses.end_ns.max()) + 1, 1.0)
        write_log(point / "latency.hlog", latency_series(read, window), 0.0)
        fold_s = time.perf_counter() - started
        print(f"recorded        {tokens:,} tokens in {count:,} responses")
        print(f"parts           {part_bytes / tokens:.2f} bytes a token in {len(parts)} files")
        print(f"compacted       {compact_bytes / tokens:.2f} bytes a token (at most 2.5)")
        print(
            f"record()        {loop_cpu_ns / tokens:.1f} ns of CPU a token (at most 50), ", end=""
        )
        print(f"{loop_ns / tokens:.1f} by the clock, worst {worst_ns / 1e6:.2f} ms a response")
        print(f"compaction      {compact_s:.1f} s")
        print(f"read and fold   {fold_s:.1f} s into an HdrHistogram log")
        print(f"peak memory     {peak_mb:.0f} MB recording, {compact_peak_mb:.0f} MB compacting")
    if asked.write:
        result = {
            "tokens": tokens,
            "responses": count,
            "bytes_a_token_in_parts": part_bytes / tokens,
            "bytes_a_token": compact_bytes / tokens,
            "record_cpu_ns_a_token": loop_cpu_ns / tokens,
            "record_ns_a_token": loop_ns / tokens,
            "record_worst_ms": worst_ns / 1e6,
            "peak_mb_recording": peak_mb,
            "peak_mb_compacting": compact_peak_mb,
        }
        print(write_result("recorder", result))


if __name__ == "__main__":
    main()
