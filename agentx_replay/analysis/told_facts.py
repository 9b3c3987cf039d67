"""What a server and its exporters tell of the system, under the keys of ``system_facts.FACTS``.

Only those keys are taken: what an engine tells of itself may hold secrets. Names were read in the
sources of vLLM 0.32.0, SGLang 0.5.23, llama.cpp, dcgm-exporter and AMD's device-metrics-exporter.
Not for: asking (``experiment/asked_facts.py``).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from agentx_replay.analysis.server import Samples, pool_tokens
from agentx_replay.results.server_metrics import known_samples
from agentx_replay.results.server_names import Metric
from agentx_replay.results.system_facts import FACTS, System, fact_if_fit

_COMMIT = re.compile(r"(?:\+g|^b\d+-)([0-9a-f]{7,40})")
"""In a version such as 0.32.1.dev7+g36768d1bf, or a build of llama.cpp such as b6100-36768d1b."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"(\w+)\{(.*)\}\s+([0-9.eE+]+)(?:\s|$)")
_MIB_PER_GB = 1e9 / 2**20
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "llamacpp": "llama.cpp"}
_OWNER = "agentx-replay"
SIMULATOR = "agentx-replay simulator"
_POOL_WITHIN = 0.01
"""How far a pool may be from what was said of it: somebody rounds."""
SERVED_AS = "served_as"
"""The name under which a server lists its model, which may be another than the model's."""


def facts_of_info(info: Any) -> dict[str, Any]:
    """Return what an engine's own page of JSON tells; nothing of a page that is something else."""
    if not isinstance(info, dict):
        return {}
    vllm = info.get("vllm_config")
    if isinstance(vllm, dict):
        found = {key: _at(vllm, fact.vllm) for key, fact in FACTS.items() if fact.vllm}
    else:
        found = {key: info.get(fact.sglang) for key, fact in FACTS.items() if fact.sglang}
    if "build_info" in info:  # llama.cpp, which tells where the file of the model lies
        del found["model"]
    commit = _COMMIT.search(str(info.get("version") or info.get("build_info") or ""))
    found["engine_commit"] = commit and commit[1]
    found["framework"] = _framework(info)
    return _fit(found)


def _framework(info: Mapping[str, Any]) -> str | None:
    for key, framework in (("vllm_config", "vllm"), ("tp_size", "sglang")):
        if key in info:
            return framework
    return "llama.cpp" if "build_info" in info else None


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _fit(found: Mapping[str, Any]) -> dict[str, Any]:
    told = ((key, value) for key, value in found.items() if value not in (None, "auto"))
    fit = ((key, fact_if_fit(key, value)) for key, value in told)
    return {key: value for key, value in fit if value is not None}


def facts_of_models(listed: Any) -> dict[str, Any]:
    """Return the framework that the list of models names: the built-in simulator's, whose metrics
    have vLLM's names.
    """
    models = listed.get("data") if isinstance(listed, dict) else None
    entries = models if isinstance(models, list) else []
    owners = [each.get("owned_by") for each in entries if isinstance(each, dict)]
    return {"framework": SIMULATOR} if _OWNER in owners else {}


def facts_of_metrics(lines: Iterable[str]) -> dict[str, Any]:
    """Return the engine, its block size and the KV cache of all engines of a metrics page."""
    told: dict[Metric, list[Samples]] = {}
    for series, value in known_samples(lines):
        sample = Samples(series.labels, np.zeros(1), np.array([value]), series.name)
        told.setdefault(series.metric, []).append(sample)
    kinds = [each.name.replace(":", "_").split("_")[0] for of in told.values() for each in of]
    pool = pool_tokens({metric: tuple(samples) for metric, samples in told.items()})
    sizes = [int(each.values[0]) for each in told.get(Metric.BLOCK_TOKENS, ())]
    labels = (dict(_LABEL.findall(each.labels)) for each in told.get(Metric.CACHE_CONFIG, ()))
    sizes += [int(each["block_size"]) for each in labels if each.get("block_size", "").isdecimal()]
    return _fit(
        {
            "framework": _ENGINES.get(kinds[0]) if kinds else None,
            "block_size": next(iter(sizes), None),
            "kv_cache_pool_tokens": pool and int(pool),
        }
    )


def facts_of_exporter(lines: Iterable[str]) -> dict[str, Any]:
    """Return the GPUs of a page of NVIDIA's or AMD's exporter: how many, which, and their memory.

    A partition of a GPU is no GPU of its own.
    """
    devices: dict[tuple[str, str], dict[str, Any]] = {}
    for name, labels, value in _of_devices(lines):
        host = labels.get("Hostname") or labels.get("hostname") or ""
        device = labels.get("UUID") or labels.get("serial_number") or labels.get("gpu_id") or ""
        kept = devices.setdefault((host, device), {"mib": 0.0})
        kept["hw"] = labels.get("modelName") or labels.get("card_model") or kept.get("hw")
        if name in ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "gpu_total_vram"):
            kept["mib"] += value
    models = {each["hw"] for each in devices.values()}
    mib = max((each["mib"] for each in devices.values()), default=0.0)
    return _fit(
        {
            "gpus": len(devices) or None,
            "nodes": len({host for host, _ in devices}) or None,
            "hw": models.pop() if len(models) == 1 else None,
            "hbm_gb": round(mib / _MIB_PER_GB, 1) or None,
        }
    )


def _of_devices(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in lines:
        found = _LINE.match(line)
        labels = dict(_LABEL.findall(found[2])) if found else {}
        whole = not labels.get("GPU_I_ID") and labels.get("partition_id", "0") == "0"
        if found and whole and found[1].startswith(("DCGM_FI_", "gpu_")):
            yield found[1], labels, float(found[3])


def contradictions(said: System, told: Mapping[str, Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Return the facts that were said of a system and that its server tells otherwise, with both
    values.
    """
    both = ((key, said.get(key), told.get(key)) for key in FACTS if FACTS[key].checked)
    return tuple(
        (key, one, other)
        for key, one, other in both
        if one is not None and other is not None and not _agree(key, one, other)
        if key != "model" or not _agree(key, one, told.get(SERVED_AS, other))
    )


def _agree(key: str, said: Any, told: Any) -> bool:
    if key == "kv_cache_pool_tokens":
        return abs(float(said) - float(told)) <= _POOL_WITHIN * float(told)
    if key == "model":  # with or without whose it is, or where it lies
        said, told = (str(each).rstrip("/").rpartition("/")[2].lower() for each in (said, told))
    return bool(said == told)
