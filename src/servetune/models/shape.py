"""What a checkpoint's layers attend to and keep in the KV cache, by its config.json."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class UncountedError(ValueError):
    """A model whose work is not understood; the message says why, in a few words."""


_UNLIKE = (
    *("attention_chunk_size", "attention_k_eq_v", "attn_layer_indices", "attn_layer_period"),
    *("attn_type_list", "block_configs", "block_types", "conv_L_cache", "cross_attention_layers"),
    *("full_attention_interval", "global_head_dim", "hybrid_layer_ids", "hybrid_override_pattern"),
    *("index_topk", "is_encoder_decoder", "layers_block_type", "multi_query"),
    *("num_kv_shared_layers", "swa_head_dim", "swa_num_key_value_heads"),
)
"""Keys of models whose layers are not alike, or keep something else than keys and values."""
_UNLIKE_BEGINNINGS = ("linear_attn", "linear_conv", "linear_key", "mamba", "ssm_", "blocksparse")
_UNLIKE_TENSORS = ("mamba", ".ssm", "A_log", "conv1d", "linear_attn", "time_mix")

_LAYER = re.compile(r"\blayers?\.(\d+)\.")
_KEYS = re.compile(r"\b(k_proj|kv_a_proj\w*|qkv_proj|qkv|query_key_value|c_attn|Wqkv|wqkv|wk)\b")

_ALL_WINDOWED = ("MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM")
"""Where all layers have the sliding window that is told without more."""


@dataclass(frozen=True)
class Shape:
    """Attention: the layers of a model, the width of one, and what they keep of each token.

    `windowed_layers` of them attend to the last `window_tokens` alone.
    """

    layers: int
    attention_width: int
    kv_values_per_token: int
    windowed_layers: int = 0
    window_tokens: int = 0


def shape_of(text: Mapping[str, Any], names: Iterable[str]) -> Shape:
    """Read the attention of a config.json, and check it by the names of the tensors.

    Raises:
        UncountedError: some layers keep no keys and values of their own, or another number of them.
    """
    for key, value in text.items():
        if value and (key in _UNLIKE or key.startswith(_UNLIKE_BEGINNINGS)):
            raise UncountedError(f"layers that differ in attention are not understood ({key})")
    layers, heads = _whole(text, "num_hidden_layers"), _whole(text, "num_attention_heads")
    _check(names, layers)
    windowed, window = _windows(text, layers)
    if rank := text.get("kv_lora_rank"):
        rotary = _whole(text, "qk_rope_head_dim")
        # Of a prompt; decode multiplies with the latent, which is wider.
        wide = sum(text.get(name) or 0 for name in ("qk_nope_head_dim", "v_head_dim")) + rotary
        return Shape(layers, heads * wide // 2, layers * (rank + rotary), windowed, window)
    head_dim = text.get("head_dim") or _whole(text, "hidden_size") // heads
    kv_heads = _whole(text, "num_key_value_heads") if text.get("num_key_value_heads") else heads
    return Shape(layers, heads * head_dim, 2 * layers * kv_heads * head_dim, windowed, window)


def layer_of(name: str) -> int | None:
    """Return the layer that a tensor belongs to; None: none, or none that is numbered."""
    found = _LAYER.search(name)
    return int(found[1]) if found else None


def _whole(text: Mapping[str, Any], name: str) -> int:
    value = text.get(name)
    if not isinstance(value, int) or value < 1:
        raise UncountedError(f"config.json tells no {name}")
    return value


def _check(names: Iterable[str], layers: int) -> None:
    attending = set()
    for name in names:
        if any(word in name for word in _UNLIKE_TENSORS):
            raise UncountedError(f"layers that differ in attention are not understood ({name})")
        if _KEYS.search(name):
            attending.add(layer_of(name))
    without = set(range(layers)) - attending
    if attending - {None} and without:
        raise UncountedError(f"{len(without)} of {layers} layers have no keys of their own")


def _windows(text: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """Return how many layers have a sliding window, and its tokens."""
    window, kinds = text.get("sliding_window"), text.get("layer_types")
    if kinds is not None:
        known = {"full_attention", "attention", "sliding_attention"}
        if len(kinds) != layers or set(kinds) - known:
            unknown = ", ".join(sorted(set(map(str, kinds)) - known)) or f"{len(kinds)} of {layers}"
            raise UncountedError(f"layer_types are not understood ({unknown})")
        windowed = list(kinds).count("sliding_attention")
    elif not window or text.get("use_sliding_window") is False:
        windowed = 0
    elif isinstance(pattern := text.get("sliding_window_pattern"), int) and pattern > 0:
        windowed = layers - layers // pattern
    elif set(text.get("architectures") or []) & {*_ALL_WINDOWED}:
        windowed = layers
    else:
        raise UncountedError("which layers have the sliding_window is not known")
    if not windowed:
        return 0, 0
    window = _whole(text, "sliding_window")
    is_all = window >= (text.get("max_position_embeddings") or math.inf)
    return (0, 0) if is_all else (windowed, window)
