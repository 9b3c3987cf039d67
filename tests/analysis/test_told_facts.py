"""What servers and exporters tell of a system, page by page, and what contradicts its facts."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from made_runs import Level, make_run
from record_cases import SECOND, write_rows

from agentx_replay.analysis.run import read_run
from agentx_replay.analysis.told_facts import (
    contradictions,
    facts_of_exporter,
    facts_of_info,
    facts_of_metrics,
)
from agentx_replay.results.layout import Measurement, point_directory, point_file
from agentx_replay.results.schema import SERVER
from agentx_replay.results.system_facts import System

VLLM = {
    "vllm_config": {
        "model_config": {"model": "org/M", "quantization": "fp4"},
        "parallel_config": {
            "tensor_parallel_size": 8,
            "pipeline_parallel_size": 1,
            "decode_context_parallel_size": 4,
        },
        "cache_config": {"block_size": 16, "cache_dtype": "auto"},
        "speculative_config": {"method": "eagle", "num_speculative_tokens": 3},
    },
    "vllm_env": {"VLLM_API_KEY": "sk-1"},
}
SGLANG = {
    "model_path": "https://me:pass@hub/org/M", "tp_size": 4, "ep_size": 4, "page_size": 64,
    "enable_dp_attention": True, "kv_cache_dtype": "fp8_e4m3", "api_key": "sk-1",
    "max_total_num_tokens": 900_000, "speculative_algorithm": None, "version": "0.5.23",
}  # fmt: skip


@pytest.mark.parametrize(
    ("info", "facts"),
    [
        (VLLM, {"framework": "vllm", "model": "org/M", "precision": "fp4", "tp": 8, "pp": 1,
                "dcp_size": 4, "block_size": 16, "spec_decoding": "eagle", "draft_tokens": 3}),
        ({"version": "0.32.1.dev7+g36768d1bf"}, {"engine_commit": "36768d1bf"}),
        (SGLANG, {"framework": "sglang", "model": "https://***@hub/org/M", "tp": 4, "ep": 4,
                  "dp_attention": True, "block_size": 64, "kv_precision": "fp8_e4m3",
                  "kv_cache_pool_tokens": 900_000}),
        ({"build_info": "b6100-36768d1b", "model_path": "/m.gguf"},
         {"framework": "llama.cpp", "engine_commit": "36768d1b"}),
        ({"tp_size": "many", "page_size": -1, "model_path": 3}, {"framework": "sglang"}),
        (["of", "another", "kind"], {}),
        (None, {}),
    ],
)  # fmt: skip
def test_of_a_page_of_json_only_facts_are_taken(info: Any, facts: dict[str, Any]) -> None:
    assert facts_of_info(info) == facts


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (
            ['vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1',
             'vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1000"} 1'],
            {"framework": "vllm", "block_size": 16, "kv_cache_pool_tokens": 32_000},
        ),
        (["sglang:max_total_num_tokens 900000"],
         {"framework": "sglang", "kv_cache_pool_tokens": 900_000}),
        (["trtllm_kv_cache_max_blocks 100", "trtllm_kv_cache_tokens_per_block 32"],
         {"framework": "trtllm", "block_size": 32, "kv_cache_pool_tokens": 3_200}),
        (["python_info 1"], {}),
    ],
)  # fmt: skip
def test_metrics_tell_the_kv_cache_of_all_engines(lines: list[str], facts: dict[str, Any]) -> None:
    assert facts_of_metrics(lines) == facts


def _dcgm(gpu: int, more: str = "") -> list[str]:
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA B300",Hostname="a"{more}'
    return [
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 200000",
        f"DCGM_FI_DEV_FB_FREE{{{labels}}} 74658",
    ]


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        # 274,658 MiB are 288.0 GB; a MIG instance repeats its GPU.
        ([*_dcgm(0), *_dcgm(1), *_dcgm(1, ',GPU_I_ID="7"'), "# HELP x"],
         {"gpus": 2, "nodes": 1, "hw": "NVIDIA B300", "hbm_gb": 288.0}),
        (['gpu_total_vram{gpu_id="0",serial_number="s0",card_model="MI355X",hostname="a",'
          'partition_id="0"} 274658',
          'gpu_total_vram{gpu_id="1",serial_number="s0",hostname="a",partition_id="1"} 34332',
          'gpu_total_vram{gpu_id="2",serial_number="s1",card_model="MI355X",hostname="b",'
          'partition_id="0"} 274658'],
         {"gpus": 2, "nodes": 2, "hw": "MI355X", "hbm_gb": 288.0}),
        (["vllm:num_requests_running 1"], {}),
    ],
)  # fmt: skip
def test_exporters_tell_the_gpus(lines: list[str], facts: dict[str, Any]) -> None:
    assert facts_of_exporter(lines) == facts


@pytest.mark.parametrize(
    ("said", "told", "found"),
    [
        ({"tp": 8}, {"tp": 4}, [("tp", 8, 4)]),
        ({"tp": 8}, {"tp": 8, "pp": 2}, []),
        ({"model": "deepseek-r1"}, {"model": "/models/org/DeepSeek-R1/"}, []),
        ({"model": "org/M"}, {"model": "org/N"}, [("model", "org/M", "org/N")]),
        ({"model": "r1"}, {"model": "org/DeepSeek-R1", "served_as": "r1"}, []),
        ({"kv_cache_pool_tokens": 2_100_000}, {"kv_cache_pool_tokens": 2_097_152.0}, []),
        ({"kv_cache_pool_tokens": 200}, {"kv_cache_pool_tokens": 100},
         [("kv_cache_pool_tokens", 200, 100)]),
        ({"precision": "fp4"}, {"precision": "nvfp4"}, []),  # words of one thing differ
    ],
)  # fmt: skip
def test_what_the_server_tells_otherwise_is_found(
    said: dict[str, Any], told: dict[str, Any], found: list[Any]
) -> None:
    assert list(contradictions(System(said), told)) == found


def test_a_level_is_held_against_what_was_told_of_it(tmp_path: Path) -> None:
    """Of the KV cache the scraped metrics tell, of the rest the record of the level."""
    said = {"tp": 8, "kv_cache_pool_tokens": 100, "level": [{"concurrency": 6, "tp": 4}]}
    run = make_run(tmp_path / "r", [Level(4, 50.0, 100.0), Level(6, 40.0, 110.0)], system=said)
    for level in (4, 6):
        of = point_directory(run, Measurement(level))
        told = orjson.loads(point_file(of).read_bytes()) | {"told": {"tp": 4}}
        point_file(of).write_bytes(orjson.dumps(told))
        pool = (SECOND, "url", "pool_tokens", "sglang:max_total_num_tokens", "", 200.0)
        write_rows(of, SERVER, [pool], Measurement(level))
    points = read_run(run).points
    pool_of = ("kv_cache_pool_tokens", 100, 200.0)
    assert [each.contradicted for each in points] == [(("tp", 8, 4), pool_of), (pool_of,)]
    assert all(each.has("facts-contradicted") for each in points)
