"""What one forward pass of a checkpoint reads and computes, from its own tensors.

The header of a safetensors file names each tensor with its type, shape and size; a checkpoint
without weights is counted from its config.json. vLLM's own counters are not used: they take every
`compressed-tensors` checkpoint for one of 4 bits.
"""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from servetune.records.sessions import Architecture

_EMBEDDING = ("embed_tokens", "wte", "word_embeddings")
_HEAD = ("lm_head", "embed_out", "output.weight")
_TABLES = ("d2t", "t2d", "g_idx", "rotary_emb", "weight_shape")
"""Tensors that a forward pass does not stream: index tables and constants."""
_SCALES = ("scale", "scales", "zero_point", "qzeros", "zeros")
_DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def read_architecture(folder: Path) -> Architecture | None:
    """Count a checkpoint, or a config.json alone; None where none names its layers.

    Weights that are neither safetensors nor absent (`pytorch_model.bin`) are counted from
    config.json too.
    """
    try:
        return count(read_config(folder), list(_tensors(folder)))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a checkpoint, or that file itself.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
    """
    file = folder / "config.json" if folder.is_dir() else folder
    config: dict[str, Any] = json.loads(file.read_bytes())
    return config


def count(config: dict[str, Any], tensors: list[tuple[str, str, list[int], int]]) -> Architecture:
    """Count a checkpoint from its config.json and its tensors: name, type, shape and bytes.

    Raises:
        KeyError: config.json does not say how many layers and heads there are.
    """
    text = {**config, **config.get("text_config", {})}
    sums = _from_tensors(config, tensors) if tensors else _from_config(text)
    heads = text["num_attention_heads"]
    head_dim = text.get("head_dim") or text["hidden_size"] // heads
    layers = text["num_hidden_layers"]
    experts = _first(text, "num_local_experts", "num_experts", "n_routed_experts") or 0
    if text.get("kv_lora_rank"):
        kv_values = layers * (text["kv_lora_rank"] + text["qk_rope_head_dim"])
    else:
        kv_values = 2 * layers * text.get("num_key_value_heads", heads) * head_dim
    return Architecture(
        layers=layers,
        attention_width=heads * head_dim,
        kv_values_per_token=kv_values,
        experts=experts,
        experts_per_token=(_first(text, "num_experts_per_tok", "moe_top_k") or 1) if experts else 0,
        compute=_compute(config),
        **sums,
    )


def _tensors(folder: Path) -> Iterator[tuple[str, str, list[int], int]]:
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        for name, tensor in header.items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                yield name, tensor["dtype"], tensor["shape"], end - begin


def _from_tensors(
    config: dict[str, Any], tensors: list[tuple[str, str, list[int], int]]
) -> dict[str, int]:
    kinds = ("linear", "head", "expert", "embedding")
    sums = {f"{kind}_{what}": 0 for kind in kinds for what in ("parameters", "bytes")}
    bits = _weight_bits(config)
    for name, dtype, shape, size in tensors:
        if any(word in name for word in _TABLES):
            continue
        kind = _kind(name)
        sums[f"{kind}_bytes"] += size
        if len(shape) >= 2 and not name.endswith(_SCALES):
            # Several weights of few bits are packed into one integer.
            if bits and bits < 8 and dtype in ("I32", "U8"):
                sums[f"{kind}_parameters"] += size * 8 // bits
            else:
                sums[f"{kind}_parameters"] += math.prod(shape)
    if not sums["head_bytes"]:  # the embedding is the head too
        sums |= {f"head_{what}": sums[f"embedding_{what}"] for what in ("parameters", "bytes")}
    # A pass reads of the embedding only the rows of its tokens.
    streamed = {name: value for name, value in sums.items() if not name.startswith("embedding")}
    return {**streamed, "stored_bytes": sum(size for *_, size in tensors)}


def _from_config(text: dict[str, Any]) -> dict[str, int]:
    """Count a Llama-like decoder: gated MLP, grouped-query attention, experts, EAGLE-3 drafts."""
    hidden, layers, heads = (
        text[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")
    )
    head_dim = text.get("head_dim") or hidden // heads
    kv_heads = text.get("num_key_value_heads", heads)
    is_eagle3 = any("Eagle3" in name for name in text.get("architectures") or [])
    width_in = 2 * hidden if is_eagle3 else hidden
    attention = width_in * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden
    experts = _first(text, "num_local_experts", "num_experts", "n_routed_experts") or 0
    gated = 3 * hidden * text["intermediate_size"]
    expert = 3 * hidden * (text.get("moe_intermediate_size") or text["intermediate_size"])
    router = hidden * experts
    linear = layers * (attention + (router if experts else gated)) + 3 * hidden**2 * is_eagle3
    vocabulary = text.get("draft_vocab_size") or text["vocab_size"]
    head = vocabulary * hidden
    width = _DTYPE_BYTES.get(str(text.get("torch_dtype") or text.get("dtype")), 2)
    bits = _weight_bits(text) or 8 * width
    norms = (2 * layers + 1) * hidden
    sums = {
        "linear_parameters": linear,
        "linear_bytes": linear * bits // 8 + norms * width,
        "head_parameters": head,
        "head_bytes": head * width,
        "expert_parameters": layers * experts * expert,
        "expert_bytes": layers * experts * expert * bits // 8,
    }
    embedding = 0 if is_eagle3 or text.get("tie_word_embeddings") else head * width
    stored = sums["linear_bytes"] + sums["head_bytes"] + sums["expert_bytes"] + embedding
    return {**sums, "stored_bytes": stored}


def _kind(name: str) -> str:
    if any(word in name for word in _EMBEDDING):
        return "embedding"
    if any(word in name for word in _HEAD):
        return "head"
    return "expert" if ".experts." in name and "shared" not in name else "linear"


def _quantization(config: dict[str, Any], part: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how a checkpoint is quantized, and what its first group says of a part."""
    quantization = config.get("quantization_config")
    if not isinstance(quantization, dict):
        return {}, {}
    groups = (quantization.get("config_groups") or {}).values()
    group = next((group for group in groups if isinstance(group, dict)), {})
    return quantization, group.get(part) or {}


def _weight_bits(config: dict[str, Any]) -> int | None:
    quantization, weights = _quantization(config, "weights")
    bits = weights.get("num_bits") or quantization.get("bits") or quantization.get("w_bit")
    return 8 if not bits and quantization.get("quant_method") == "fp8" else bits


def _compute(config: dict[str, Any]) -> str:
    """The type of the matrix multiplications: that of the activations, if they are quantized."""
    quantization, activations = _quantization(config, "input_activations")
    if activations.get("num_bits") == 8:
        return "fp8" if activations.get("type") == "float" else "int8"
    return "fp8" if quantization.get("quant_method") == "fp8" else "bf16"


def _first(config: dict[str, Any], *names: str) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), None)
