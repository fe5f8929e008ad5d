"""The least that parts of a step take, by the checkpoints and what the device can do."""

from dataclasses import dataclass

from servetune.models.loaded import devices_of, served
from servetune.models.shape import UncountedError
from servetune.models.work import head, kv_cache_bytes, passes
from servetune.records.sessions import Architecture, Launch

VECTOR_BYTES = 40
"""Activations that a layer moves for each token outside of its multiplications, for each of its
`attention_width`: norms, rotation, the gated activation, residuals."""

FP8_READ_FLOPS = 304
"""Reading a byte of an fp8 KV cache takes at least as long as so many of bf16's operations: the
kernel that converts it is bound by arithmetic. The study fp8-kv-context found 0.73 of bf16's time
on an H200, and not a half. An H100 computes as fast and reads its memory more slowly: by this it
is 0.52 there, and the study h100-fp8-kv-context found 0.52."""

QUANTIZING_S = 11e-6
"""A layer's kernels that quantize activations, in each step."""

KV_QUANTIZING_S = 3.5e-6
"""A layer's kernels that quantize for an fp8 KV cache, in each step: 0.11 ms in the study
fp8-kv-context."""

DRAFTING_S = 0.3e-3
"""Each token of a draft, beside reading the model that drafts it."""


@dataclass(frozen=True)
class Bounds:
    """The least seconds that parts of a step take: what `StepTime` has of these names.

    A token takes `token_s` of multiplications, and `vector_s` outside of them; a step takes
    `quantizing_s` for an 8-bit KV cache.
    """

    weights_s: float
    token_s: float
    vector_s: float
    context_s: float
    attention_s: float
    graph_tokens: int | None
    quantizing_s: float = 0.0


def bounds_of(launch: Launch) -> Bounds | None:
    """Return the least that parts of a step take; None where that is not known.

    So it is of a checkpoint or a device of which too little is known, and of several engines.
    """
    try:
        own = served(launch)
        if own.copies > 1:
            return None
        return bounds_with(own.model, own.draft, launch)
    except UncountedError:
        return None


def bounds_with(model: Architecture, draft: Architecture | None, launch: Launch) -> Bounds | None:
    """Return the least that parts of a step take of models as a server loads them.

    A model that drafts reads all tokens, too, in bf16. None: a ceiling of the launch's device is
    not known, or a layer reads a part of the context alone.

    Raises:
        UncountedError: its KV cache is not understood.
    """
    if launch.ceilings is None or model.windowed_layers:
        return None
    ceilings = launch.ceilings.of(devices_of(launch))
    flop_s = ceilings.flop_s(model.compute)
    plain_flop_s = ceilings.flop_s("bf16")
    if not flop_s or not plain_flop_s:
        return None
    drafting_s = passes(draft, 1).flops / plain_flop_s if draft else 0.0
    width = sum(each.layers * each.attention_width for each in (model, draft) if each)
    kept = kv_cache_bytes(launch.server.kv_cache_dtype)
    kv_byte_s = 1 / ceilings.bandwidth_byte_s
    if kept == 1:
        kv_byte_s = max(kv_byte_s, FP8_READ_FLOPS / plain_flop_s)
    return Bounds(
        weights_s=(passes(model, 1) + head(model, 1)).bytes / ceilings.bandwidth_byte_s,
        token_s=passes(model, 1).flops / flop_s + drafting_s,
        vector_s=VECTOR_BYTES * width / ceilings.bandwidth_byte_s,
        context_s=model.kv_values_per_token * kept * kv_byte_s,
        attention_s=4 * model.layers * model.attention_width / plain_flop_s,
        graph_tokens=_graph_tokens(launch),
        quantizing_s=KV_QUANTIZING_S * model.layers if kept == 1 else 0.0,
    )


def overhead_of_s(
    model: Architecture, draft: Architecture | None, tokens: int, bandwidth_byte_s: float
) -> float:
    """Return the part of a step's overhead that is a checkpoint's own, and a draft's of `tokens`.

    An 8-bit model quantizes the activations of each layer; a draft's model is read for each token.
    """
    quantizing_s = 0.0 if model.compute == "bf16" else QUANTIZING_S * model.layers
    if draft is None:
        return quantizing_s
    reading_s = (passes(draft, 1) + head(draft, 1)).bytes / bandwidth_byte_s
    return quantizing_s + tokens * (DRAFTING_S + reading_s)


def _graph_tokens(launch: Launch) -> int | None:
    """Return the most tokens of a step in a CUDA graph; None without graphs."""
    return launch.setting("compilation_config", "max_cudagraph_capture_size", int) or None
