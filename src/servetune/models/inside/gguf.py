"""Write a Llama checkpoint as GGUF, with the same weights: llama.cpp serves no safetensors.

Its tokenizer must be a byte-level BPE that splits as GPT-2's. The files that servetune reads of a
checkpoint stay beside it. It runs in the environment of llama.cpp.

    python -m servetune.models.inside.gguf --base DIR --out DIR
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.utility import SafetensorsLocal

from servetune.models.inside.writing import read_options, refuse, say

ARCHITECTURE = "LlamaForCausalLM"
WEIGHTS = "model.gguf"
KEPT = ("config.json", "*token*", "chat_template*")
UNKNOWN = ("attention_bias", "mlp_bias", "quantization_config", "sliding_window")
"""Settings of config.json that change what the tensors mean."""


def main() -> None:
    """Write the GGUF that the options ask for."""
    options = read_options(argparse.ArgumentParser(description=__doc__), "base")
    convert(options.base, options.out)


def convert(base: Path, out: Path) -> None:
    """Write the checkpoint `base` to the folder `out`; ends the program where it is no Llama."""
    config = json.loads((base / "config.json").read_text())
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    scaled = rope.get("rope_type", "default") != "default"
    unknown = [*filter(config.get, UNKNOWN), *(["rope_parameters"] if scaled else [])]
    if config.get("architectures") != [ARCHITECTURE] or unknown:
        what = f"with {unknown[0]}" if unknown else str(config.get("architectures"))
        refuse(f"--base {base} is a model {what}; expected a plain {ARCHITECTURE}")
    out.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(out / WEIGHTS, "llama")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    _add_tokenizer(writer, base, config["vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, weights in _tensors(base):
        stored = names.get_name(name, try_suffixes=(".weight",))
        if stored is None:
            refuse(f"--base {base}: no place in a GGUF for its tensor {name}")
        if ".q_proj." in name or ".k_proj." in name:
            weights = _interleaved(weights, heads if ".q_proj." in name else kv_heads)
        if weights.ndim == 1:
            writer.add_tensor(stored, weights)
        else:
            kind = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(stored, gguf.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for file in (file for pattern in KEPT for file in base.glob(pattern)):
        shutil.copyfile(file, out / file.name)
    say(f"wrote {out / WEIGHTS}")


def _tensors(base: Path) -> Iterator[tuple[str, Any]]:
    """Yield the weights in float32, which holds bf16 and float16 without loss."""
    for file in sorted(base.glob("*.safetensors")):
        with SafetensorsLocal(file) as tensors:
            for name, tensor in tensors.items():
                stored = tensor.mmap_bytes()
                if tensor.dtype == "BF16":
                    wide = stored.view(np.uint16).astype(np.uint32) << 16
                    values = wide.view(np.float32)
                elif tensor.dtype in ("F16", "F32"):
                    values = stored.view(np.dtype(f"f{tensor.dtype[1:]}".replace("16", "2")))
                    values = values.astype(np.float32)
                else:
                    refuse(f"{file}: {name} is {tensor.dtype}; expected BF16, F16 or F32")
                yield name, values.reshape(tensor.shape)


def _interleaved(weights: Any, heads: int) -> Any:
    """Put the two halves of each head's rotated rows in turn, as llama.cpp rotates pairs of them.

    Hugging Face's checkpoints have one half after the other.
    """
    rows = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return rows.swapaxes(1, 2).reshape(weights.shape)


def _add_tokenizer(writer: gguf.GGUFWriter, base: Path, size: int) -> None:
    """Write a byte-level BPE; ends the program of another kind."""
    tokenizer = json.loads((base / "tokenizer.json").read_text())
    model, before = tokenizer["model"], tokenizer.get("pre_tokenizer") or {}
    is_gpt2 = before.get("type") == "ByteLevel" and before.get("use_regex", True)
    after = tokenizer.get("post_processor") or {}
    changes = tokenizer.get("normalizer") or before.get("add_prefix_space")
    if model["type"] != "BPE" or not is_gpt2 or changes or after.get("special_tokens"):
        refuse(
            f"--base {base}: its tokenizer is none that splits bytes as GPT-2's, and adds no token"
        )
    special = {token["id"]: token for token in tokenizer["added_tokens"]}
    texts = {id: text for text, id in model["vocab"].items()}
    texts |= {id: token["content"] for id, token in special.items()}
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([texts.get(id, f"[PAD{id}]") for id in range(size)])
    writer.add_token_types([_kind(kinds, texts, special, id) for id in range(size)])
    pairs = model["merges"]
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in pairs])
    settings = json.loads((base / "tokenizer_config.json").read_text())
    ids = {text: id for id, text in texts.items()}
    for name, add in (
        ("bos_token", writer.add_bos_token_id),
        ("eos_token", writer.add_eos_token_id),
        ("pad_token", writer.add_pad_token_id),
    ):
        if (token := settings.get(name)) in ids:
            add(ids[token])
    writer.add_add_bos_token(False)
    template = base / "chat_template.jinja"
    if template.is_file():
        writer.add_chat_template(template.read_text())


def _kind(kinds: Any, texts: dict[int, str], special: dict[int, Any], id: int) -> int:
    if id in special:
        return int(kinds.CONTROL if special[id]["special"] else kinds.USER_DEFINED)
    return int(kinds.NORMAL if id in texts else kinds.UNUSED)


if __name__ == "__main__":
    main()
