"""What one forward pass of a checkpoint reads and computes, from its own tensors.

The header of a safetensors file names each tensor with its type, shape and size; a checkpoint
without weights is counted from its config.json. vLLM's own counters are not used: they take every
`compressed-tensors` checkpoint for one of 4 bits. What is not understood is not counted.
"""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from servetune.models.quantization import Format, format_of
from servetune.models.shape import UncountedError, layer_of, shape_of
from servetune.records.sessions import Architecture

_EMBEDDING = ("embed_tokens", "wte", "word_embeddings")
_HEAD = ("lm_head", "embed_out", "output.weight")
_TABLES = ("d2t", "t2d", "g_idx", "rotary_emb", "weight_shape")
"""Tensors that a forward pass does not stream: index tables and constants."""
_TOWERS = ("visual.", "vision", "audio", "multi_modal", "mm_projector", "image_newline")
"""Those that read images and sound, once a request and not each step."""
_NO_WEIGHTS = ("scale", "scales", "scale_inv", "zero_point", "qzeros", "zeros", "bias")
_DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_PACKED = ("I32", "U8")
"""Types of integers into which several weights of few bits are packed."""
_PLAIN = ("F64", "F32", "F16", "BF16", "I8", "F8_E4M3", "F8_E5M2")

_LIKE_LLAMA = frozenset(
    f"{name}ForCausalLM"
    for name in (
        *("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Qwen2Moe", "Qwen3Moe", "Phi3"),
        *("Granite", "GptOss"),
    )
)
"""Decoders that `_from_config` counts right, beside EAGLE-3's."""
_OTHER_LAYERS = ("mlp_only_layers", "moe_layer_freq", "interleave_moe_layer_step")


def read_architecture(folder: Path) -> Architecture | None:
    """Count a checkpoint, or a config.json alone; None where `count_checkpoint` raises."""
    try:
        return count_checkpoint(folder)
    except UncountedError:
        return None


def count_checkpoint(folder: Path) -> Architecture:
    """Count a checkpoint, or a config.json alone.

    Weights that are neither safetensors nor absent (`pytorch_model.bin`) are counted from
    config.json too.

    Raises:
        UncountedError: it cannot be read, or is of a kind that is not understood.
    """
    try:
        return count(_with_modelopt(read_config(folder), folder), list(_tensors(folder)))
    except UncountedError:
        raise
    except KeyError as error:
        raise UncountedError(f"config.json tells no {error.args[0]}") from None
    except (OSError, ValueError, TypeError, AttributeError, struct.error):
        raise UncountedError("its files cannot be read") from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a checkpoint, or that file itself.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
    """
    file = folder / "config.json" if folder.is_dir() else folder
    config: dict[str, Any] = json.loads(file.read_bytes())
    return config


def _with_modelopt(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the quantization that ModelOpt's older checkpoints tell in a file of its own."""
    beside = folder / "hf_quant_config.json"
    if "quantization_config" in config or not beside.is_file():
        return config
    told = json.loads(beside.read_bytes())["quantization"]
    return {**config, "quantization_config": {"quant_method": "modelopt", **told}}


def count(config: dict[str, Any], tensors: list[tuple[str, str, list[int], int]]) -> Architecture:
    """Count a checkpoint from its config.json and its tensors: name, type, shape and bytes.

    Raises:
        UncountedError: it is of a kind that is not understood.
        KeyError: config.json does not hold what it takes.
    """
    text = {**config, **config.get("text_config", {})}
    streamed = [tensor for tensor in tensors if not any(word in tensor[0] for word in _TOWERS)]
    shape = shape_of(text, [name for name, *_ in streamed])
    form = format_of(text)
    experts = _first(text, "num_local_experts", "num_experts", "n_routed_experts") or 0
    if tensors:
        # Layers behind the last one predict further tokens, and only draft.
        own = [one for one in streamed if (layer_of(one[0]) or 0) < shape.layers]
        sums = _from_tensors(form, own)
        sums["stored_bytes"] = sum(size for *_, size in tensors)
    else:
        sums = _from_config(text, form, experts)
    if experts and not sums["expert_parameters"]:
        raise UncountedError("its experts are not found among its tensors")
    return Architecture(
        layers=shape.layers,
        attention_width=shape.attention_width,
        kv_values_per_token=shape.kv_values_per_token,
        windowed_layers=shape.windowed_layers,
        window_tokens=shape.window_tokens,
        experts=experts,
        experts_per_token=_chosen(text) if experts else 0,
        compute=form.compute,
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


def _from_tensors(form: Format, tensors: list[tuple[str, str, list[int], int]]) -> dict[str, int]:
    kinds = ("linear", "head", "expert", "embedding")
    sums = {f"{kind}_{what}": 0 for kind in kinds for what in ("parameters", "bytes")}
    for name, dtype, shape, size in tensors:
        if any(word in name for word in _TABLES):
            continue
        kind = _kind(name)
        sums[f"{kind}_bytes"] += size
        if len(shape) >= 2 and not name.endswith(_NO_WEIGHTS):
            sums[f"{kind}_parameters"] += _weights(name, dtype, shape, size, form)
    if not sums["head_bytes"]:  # the embedding is the head too
        sums |= {f"head_{what}": sums[f"embedding_{what}"] for what in ("parameters", "bytes")}
    # A pass reads of the embedding only the rows of its tokens.
    return {name: value for name, value in sums.items() if not name.startswith("embedding")}


def _weights(name: str, dtype: str, shape: list[int], size: int, form: Format) -> int:
    """Return how many weights a tensor holds."""
    if dtype in _PACKED and form.bits:
        return size * 8 // form.bits
    if dtype not in _PLAIN:
        raise UncountedError(f"weights of type {dtype} are not understood ({name})")
    return math.prod(shape)


def _from_config(text: dict[str, Any], form: Format, experts: int) -> dict[str, int]:
    """Count a Llama-like decoder: gated MLP, grouped-query attention, experts, EAGLE-3 drafts."""
    names = text.get("architectures") or []
    is_eagle3 = any("Eagle3" in name for name in names)
    if not is_eagle3 and not _LIKE_LLAMA & set(names):
        raise UncountedError(f"{', '.join(names) or 'it'} cannot be counted without its weights")
    if form.keeps_linear or text.get("kv_lora_rank"):
        raise UncountedError("it cannot be counted without its weights")
    hidden, layers, heads = (
        text[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")
    )
    head_dim = text.get("head_dim") or hidden // heads
    kv_heads = text.get("num_key_value_heads") or heads
    width_in = 2 * hidden if is_eagle3 else hidden
    attention = width_in * (heads + 2 * kv_heads) * head_dim + heads * head_dim * hidden
    gated = 3 * hidden * text["intermediate_size"]
    expert = 3 * hidden * (text.get("moe_intermediate_size") or text["intermediate_size"])
    mixed = _mixed_layers(text, layers) if experts else 0
    router = hidden * experts + _shared(text, expert, hidden)
    linear = layers * attention + mixed * router + (layers - mixed) * gated
    linear += 3 * hidden**2 * is_eagle3
    vocabulary = text.get("draft_vocab_size") or text["vocab_size"]
    head = vocabulary * hidden
    width = _DTYPE_BYTES.get(str(text.get("torch_dtype") or text.get("dtype")), 2)
    bits = form.bits + form.scale_bits if form.bits else 8 * width
    linear_bits = 8 * width if form.is_experts_alone else bits
    norms = (2 * layers + 1) * hidden
    sums = {
        "linear_parameters": linear,
        "linear_bytes": int(linear * linear_bits / 8) + norms * width,
        "head_parameters": head,
        "head_bytes": head * width,
        "expert_parameters": mixed * experts * expert,
        "expert_bytes": int(mixed * experts * expert * bits / 8),
    }
    embedding = 0 if is_eagle3 or text.get("tie_word_embeddings") else head * width
    stored = sums["linear_bytes"] + sums["head_bytes"] + sums["expert_bytes"] + embedding
    return {**sums, "stored_bytes": stored}


def _mixed_layers(text: dict[str, Any], layers: int) -> int:
    """Return how many layers are mixtures of experts."""
    if any(text.get(name) not in (None, [], 1) for name in (*_OTHER_LAYERS, "decoder_sparse_step")):
        raise UncountedError("which layers have experts is not known without its weights")
    return layers - int(text.get("first_k_dense_replace") or 0)


def _shared(text: dict[str, Any], expert: int, hidden: int) -> int:
    """Return the weights of the experts of a layer that all tokens go through."""
    if width := text.get("shared_expert_intermediate_size"):
        return 3 * hidden * int(width) + hidden
    return expert * int(text.get("n_shared_experts") or 0)


def _chosen(text: dict[str, Any]) -> int:
    chosen = _first(text, "num_experts_per_tok", "experts_per_token", "moe_top_k")
    if not isinstance(chosen, int):
        raise UncountedError("config.json tells no num_experts_per_tok")
    return chosen


def _kind(name: str) -> str:
    if any(word in name for word in _EMBEDDING):
        return "embedding"
    if any(word in name for word in _HEAD):
        return "head"
    return "expert" if ".experts." in name and "shared" not in name else "linear"


def _first(config: dict[str, Any], *names: str) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), None)
