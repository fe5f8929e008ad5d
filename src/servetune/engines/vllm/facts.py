"""Where a server's start went and what it has room for: from its own report, else from its log.

The report is /server_info and the `cache_config_info` of /metrics. The log's wording is that of
vLLM 0.6 to 0.33, on CUDA and on the CPU; a line that is not there leaves its fact None.
"""

import re
from datetime import datetime
from typing import Any

from servetune.records.sessions import ServerFacts

_GIB = 2**30
_FLOAT = r"([\d.]+)"
_WEIGHTS_GIB = re.compile(rf"(?:Model loading|Loading model weights) took {_FLOAT} Gi?B")
_MODEL_LOADING_S = re.compile(rf"Model loading took .*? and {_FLOAT} sec")
_WEIGHTS_S = re.compile(rf"Loading weights took {_FLOAT} sec")
_KV_CACHE_GIB = re.compile(rf"Available KV cache memory: {_FLOAT} GiB")
_INIT_S = re.compile(rf"init engine \(profile, create kv cache, warmup model\) took {_FLOAT} s")
_COMPILATION_S = re.compile(rf"\(compilation: {_FLOAT} s|torch\.compile (?:took|takes) {_FLOAT} s")
_CAPTURE_S = re.compile(rf"Graph capturing finished in {_FLOAT} s")
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(rf"Maximum concurrency for [\d,]+ tokens per request: {_FLOAT}x")
_CPU_COMPILATION = (
    re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d) .*Warming up model for the compilation"),
    re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d) .*Warming up done"),
)


def read_facts(
    log: str,
    page: str,
    info: dict[str, Any],
    startup_s: float | None = None,
    vllm_version: str | None = None,
) -> ServerFacts:
    """Gather what a server that is ready tells of its start and its capacity.

    `log` is its output so far, `page` its /metrics and `info` its /server_info, both of which may
    be empty; `startup_s` runs from its launch until it was ready.
    """
    config = _section(info, "vllm_config")
    labels = re.search(r"vllm:cache_config_info\{(.*?)\}", page)
    cache = {
        **dict(re.findall(r'(\w+)="([^"]*)"', labels[1] if labels else "")),
        **_section(config, "cache_config"),
    }
    scheduler, model = _section(config, "scheduler_config"), _section(config, "model_config")
    parallel, dtype = _section(config, "parallel_config"), cache.get("cache_dtype")
    return ServerFacts(
        vllm_version=vllm_version,
        kv_cache_tokens=_whole(cache.get("kv_cache_size_tokens")) or _whole(_last(_TOKENS, log)),
        kv_cache_max_concurrency=_number(cache.get("kv_cache_max_concurrency"))
        or _last(_CONCURRENCY, log),
        startup_s=startup_s,
        kv_cache_gib=_kv_cache_gib(cache, log),
        kv_cache_dtype=dtype if isinstance(dtype, str) else None,
        kv_cache_block_tokens=_whole(cache.get("block_size")),
        max_num_seqs=_whole(scheduler.get("max_num_seqs")),
        max_num_batched_tokens=_whole(scheduler.get("max_num_batched_tokens")),
        max_model_len=_whole(model.get("max_model_len")),
        tensor_parallel_size=_whole(parallel.get("tensor_parallel_size")),
        stream_interval=_whole(scheduler.get("stream_interval")),
        weights_gib=_most(_WEIGHTS_GIB, log),
        **_phases(log, config, startup_s),
    )


def _phases(log: str, config: dict[str, Any], startup_s: float | None) -> dict[str, float | None]:
    """Split the start: weights, compilation, graph capture, the engine's other work, the rest."""
    weights_s = _most(_MODEL_LOADING_S, log) or _most(_WEIGHTS_S, log)
    init_s, capture_s = _most(_INIT_S, log), _most(_CAPTURE_S, log)
    reported_s = _number(_section(config, "compilation_config").get("compilation_time"))
    compilation_s = reported_s or _most(_COMPILATION_S, log) or _cpu_compilation_s(log)
    profiling_s = imports_s = None
    if init_s is not None:
        # A clock of whole seconds may tell a little more than the whole took.
        compilation_s = None if compilation_s is None else min(compilation_s, init_s)
        profiling_s = max(0.0, init_s - (compilation_s or 0.0) - (capture_s or 0.0))
    if startup_s is not None and init_s is not None:
        imports_s = max(0.0, startup_s - init_s - (weights_s or 0.0))
    phases_s = {
        "imports": imports_s,
        "weights": weights_s,
        "compilation": compilation_s,
        "capture": capture_s,
        "profiling": profiling_s,
    }
    return {f"startup_{name}_s": s if s is None else round(s, 2) for name, s in phases_s.items()}


def _cpu_compilation_s(log: str) -> float | None:
    """The CPU's worker tells no duration, but when it began and ended."""
    times = [match[-1] for pattern in _CPU_COMPILATION if (match := pattern.findall(log))]
    if len(times) < 2:
        return None
    # A leap year, as the log tells none.
    began, ended = (datetime.strptime(f"2000-{text}", "%Y-%m-%d %H:%M:%S") for text in times)
    return max(0.0, (ended - began).total_seconds())


def _kv_cache_gib(cache: dict[str, Any], log: str) -> float | None:
    # A number of blocks that was given takes other memory than what was set aside.
    if _whole(cache.get("num_gpu_blocks_override")):
        return None
    size_bytes = _number(cache.get("kv_cache_memory_bytes"))
    return round(size_bytes / _GIB, 2) if size_bytes else _last(_KV_CACHE_GIB, log)


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    section = config.get(name)
    return section if isinstance(section, dict) else {}


def _numbers(pattern: re.Pattern[str], log: str) -> list[float]:
    # Of several groups only one matched.
    matches = ("".join(match).replace(",", "") for match in pattern.findall(log))
    return [float(match) for match in matches]


def _last(pattern: re.Pattern[str], log: str) -> float | None:
    return next(reversed(_numbers(pattern, log)), None)


def _most(pattern: re.Pattern[str], log: str) -> float | None:
    """The highest value: each worker tells its own, and the slowest one decides."""
    return max(_numbers(pattern, log), default=None)


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
