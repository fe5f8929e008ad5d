"""Quantize a causal language model with llm-compressor.

w8a8 is int8 weights and activations, its weights rounded with GPTQ against calibration text
(Frantar et al. 2022, arXiv:2210.17323); fp8 rounds weights to FP8 and activations at run time,
and needs no text. `lm_head` keeps its precision.

    python -m servetune.models.inside.quantized --base DIR --out DIR --scheme w8a8 \
        [--calibration FILE.jsonl] [--seed N]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.quantization import QuantizationModifier
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from servetune.corpus import passage
from servetune.models.inside.writing import Progress, read_options, refuse, say

# 128 texts of up to 2,048 tokens, as in GPTQ's paper; those of the corpus are shorter, for a CPU.
SAMPLES = 128
WORDS = 256
MAX_TOKENS = 2048


def read_texts(path: Path) -> list[str]:
    """The `text` of each line of a JSON Lines file; blank lines are skipped.

    Ends the program with one line and exit code 2 if a line has no text or the file has none.
    """
    texts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str) or not text:
            refuse(f'{path}:{number}: expected {{"text": "..."}} with a text that is not empty')
        texts.append(text)
    if not texts:
        refuse(f"{path}: holds no calibration text")
    return texts


def tell_layers(model: Any) -> None:
    """Have a model say how many of its layers are done; each is run again and again."""
    layers = getattr(model.get_decoder(), "layers", ())
    progress = Progress("quantize", len(layers))
    for done, layer in enumerate(layers[1:], start=1):
        layer.register_forward_pre_hook(lambda *_, done=done: progress.show(done))


def quantize(base: Path, out: Path, scheme: str, calibration: Path | None, seed: int) -> None:
    """Write the quantized checkpoint and its tokenizer to `out`.

    w8a8 reads the calibration file, or the corpus; each text is cut at `MAX_TOKENS` tokens.
    """
    if calibration is not None:
        texts = read_texts(calibration)
    else:
        texts = [passage(seed * SAMPLES + index, WORDS) for index in range(SAMPLES)]
    torch.manual_seed(seed)
    logging.disable_progress_bar()
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    tokenizer: Any = AutoTokenizer.from_pretrained(base)
    if scheme == "w8a8":
        say(f"quantize to w8a8: {len(texts)} calibration texts")
        limit = min(MAX_TOKENS, model.config.max_position_embeddings)
        # Cut here: the tokenizer would save its own truncation, and vLLM would obey it.
        rows = [tokenizer(text)["input_ids"][:limit] for text in texts]
        data = Dataset.from_list(
            [{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows]
        )
        tell_layers(model)
        oneshot(
            model=model,
            recipe=GPTQModifier(targets="Linear", scheme="W8A8", ignore=["lm_head"]),
            dataset=data,
            num_calibration_samples=len(texts),
            max_seq_length=limit,
        )
    else:
        say("quantize to fp8")
        fp8 = QuantizationModifier(targets="Linear", scheme="FP8_DYNAMIC", ignore=["lm_head"])
        oneshot(model=model, recipe=fp8)
    model.save_pretrained(out, save_compressed=True)
    tokenizer.save_pretrained(out)
    say(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scheme", choices=("w8a8", "fp8"), required=True)
    parser.add_argument("--calibration", type=Path)
    options = read_options(parser, "base")
    quantize(options.base, options.out, options.scheme, options.calibration, options.seed)
