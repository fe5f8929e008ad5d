"""What no launch is needed for: candidates that cannot fit, and the most that a device allows.

Both are bounds: what is not known refuses nothing. docs/roofline.md has the formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servetune.records.sessions import Architecture, Ceilings
from servetune.study.engines import parallel_size

MIB = 2**20
GIB = 2**30

SURE = 1.1
"""A bound is so many times what the ceilings say: they are measured, so may be too low."""

UTILIZATION = 0.92
"""vLLM's own gpu_memory_utilization, where a study sets none; older ones take 0.9."""


@dataclass(frozen=True)
class Requests:
    """Mean tokens of a workload's prompts and answers."""

    prompt_tokens: float
    answer_tokens: float


def devices_of(server: Mapping[str, Any]) -> int:
    """Return how many devices hold one copy of the weights."""
    return parallel_size(server, "tensor", "pipeline")


def no_fit(
    server: Mapping[str, Any], model: Architecture | None, memory_bytes: float | None
) -> str | None:
    """Say why a server cannot start, by the memory of one device; None if it may.

    `server` are its arguments, the study's included, and `model` is as it loads it. Weights, and
    the KV cache of one request of `max_model_len`, must fit into what vLLM takes of the devices;
    activations come on top, and the layers with a sliding window.
    """
    if model is None or memory_bytes is None:
        return None
    share = server.get("gpu_memory_utilization")
    share = share if isinstance(share, int | float) else UTILIZATION
    usable = share * memory_bytes * devices_of(server)
    weights = float(model.stored_bytes)
    if weights > usable:
        return f"weights of {weights / GIB:.1f} GiB do not fit into {usable / GIB:.1f} GiB"
    length, given = server.get("max_model_len"), server.get("kv_cache_memory_bytes")
    if isinstance(length, int) and length > 0 and given is None:
        whole = 1 - model.windowed_layers / model.layers
        cache = float(length) * whole * model.kv_values_per_token * _kv_bytes(server)
        if weights + cache > usable:
            return (
                f"weights and the KV cache of one request, {(weights + cache) / GIB:.1f} GiB, do"
                f" not fit into {usable / GIB:.1f} GiB"
            )
    return None


def most_rps(
    server: Mapping[str, Any],
    model: Architecture | None,
    ceilings: Ceilings | None,
    requests: Requests,
    is_speculative: bool = False,
) -> float | None:
    """Return requests a second that no server can pass, by a device's ceilings; None: not known.

    Every token is multiplied with all weights that are active, and each step, which gives each of
    at most `max_num_seqs` requests a token, reads the weights once. A draft gives several tokens a
    step, so that only the first bound holds there; prompts in the prefix cache cost nothing, so
    that only answers count.
    """
    if model is None or ceilings is None:
        return None
    # Each copy of the weights has its own devices, and its own max_num_seqs.
    devices, copies = devices_of(server), parallel_size(server, "data")
    chosen = model.experts_per_token / model.experts if model.experts else 0.0
    active = model.linear_parameters + chosen * model.expert_parameters + model.head_parameters
    bounds = []
    # Where a type was not measured, that of another one bounds nothing.
    is_measured = getattr(ceilings, f"{model.compute}_tflop_s", None)
    if is_measured and (flop_s := ceilings.flop_s(model.compute)):
        bounds.append(devices * flop_s / (2 * active * requests.answer_tokens))
    seqs = server.get("max_num_seqs")
    if isinstance(seqs, int) and not is_speculative:
        step_bytes = model.linear_bytes + chosen * model.expert_bytes + model.head_bytes
        steps_s = devices * ceilings.bandwidth_byte_s / step_bytes
        bounds.append(seqs * steps_s / requests.answer_tokens)
    return SURE * copies * min(bounds) if bounds else None


def _kv_bytes(server: Mapping[str, Any]) -> float:
    """Return the bytes of a value in the KV cache, at least."""
    dtype = server.get("kv_cache_dtype") or "auto"
    if dtype in ("auto", "float16", "bfloat16"):
        return 2.0
    return 1.0 if str(dtype).startswith(("fp8", "int8")) else 0.0
