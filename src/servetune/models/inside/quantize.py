"""Quantize a causal language model with llm-compressor.

w8a8 is int8 weights and activations, its weights rounded with GPTQ against calibration text
(Frantar et al. 2022, arXiv:2210.17323); fp8 rounds weights to FP8 and activations at run time,
and needs no text. `lm_head` keeps its precision.

    python -m servetune.models.inside.quantize --base DIR --out DIR --scheme w8a8 \
        [--calibration FILE.jsonl] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.quantization import QuantizationModifier
from transformers import AutoModelForCausalLM, AutoTokenizer

from servetune.corpus import passage
from servetune.models.inside.writing import refuse, say, whole_directory

SCHEMES = ("w8a8", "fp8")
SAMPLES = 128
WORDS = 256
MAX_TOKENS = 2048


def corpus_texts(seed: int) -> list[str]:
    """Calibration text for whoever brings none."""
    return [passage(seed * SAMPLES + index, WORDS) for index in range(SAMPLES)]


def read_texts(path: Path) -> list[str]:
    """The `text` of each line of a JSON Lines file; blank lines are skipped.

    Ends the program with one line and exit code 2 if a line has no text or the file has none.
    """
    if not path.is_file():
        refuse(f"--calibration {path}: no such file")
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


def recipe(scheme: str) -> Any:
    """The llm-compressor modifier of a scheme."""
    if scheme == "w8a8":
        return GPTQModifier(targets="Linear", scheme="W8A8", ignore=["lm_head"])
    return QuantizationModifier(targets="Linear", scheme="FP8_DYNAMIC", ignore=["lm_head"])


def quantize(base: Path, out: Path, scheme: str, texts: list[str], seed: int) -> None:
    """Write the quantized checkpoint and its tokenizer to `out`, complete or not at all.

    Args:
        texts: calibration samples; unused by fp8. Each is cut at `MAX_TOKENS` tokens.
    """
    torch.manual_seed(seed)
    with whole_directory(out) as scratch:
        say(f"load {base}")
        model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
        tokenizer: Any = AutoTokenizer.from_pretrained(base)
        if scheme == "w8a8":
            say(f"quantize to w8a8: {len(texts)} calibration texts, layer by layer")
            limit = min(MAX_TOKENS, model.config.max_position_embeddings)
            # Cut here: the tokenizer would save its own truncation, and vLLM would obey it.
            rows = [tokenizer(text)["input_ids"][:limit] for text in texts]
            data = Dataset.from_list(
                [{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows]
            )
            oneshot(
                model=model,
                recipe=recipe(scheme),
                dataset=data,
                num_calibration_samples=len(texts),
                max_seq_length=limit,
            )
        else:
            say("quantize to fp8")
            oneshot(model=model, recipe=recipe(scheme))
        say("save")
        model.save_pretrained(scratch, save_compressed=True)
        tokenizer.save_pretrained(scratch)


def main() -> int:
    """Read the command line and quantize; bad input exits with code 2."""
    parser = argparse.ArgumentParser(prog="servetune.models.inside.quantize", description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scheme", required=True)
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.scheme not in SCHEMES:
        refuse(f"--scheme {arguments.scheme} is unknown; choose from {', '.join(SCHEMES)}")
    if not (arguments.base / "config.json").is_file():
        refuse(f"--base {arguments.base} is no checkpoint directory: it has no config.json")
    if arguments.seed < 0:
        refuse(f"--seed must be 0 or more, got {arguments.seed}")
    given = arguments.calibration
    texts = read_texts(given) if given is not None else corpus_texts(arguments.seed)
    quantize(arguments.base, arguments.out, arguments.scheme, texts, arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
