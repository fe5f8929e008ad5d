"""Make a LoRA adapter with random weights for a causal language model, in the format of PEFT.

It adapts the projections of attention and of the MLP (Hu et al. 2021, arXiv:2106.09685). Its
weights are small, so that the model still answers in its language.

    python -m servetune.models.inside.lora --base DIR --out DIR --rank N --seed N
"""

import argparse
import json

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from servetune.models.inside.writing import read_options, refuse, say

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

SCALE = 0.01
"""Standard deviation of the weights: small beside those of a trained model, whose answers stay."""


def main() -> None:
    """Make the adapter that the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=8)
    options = read_options(parser, "base")
    torch.manual_seed(options.seed)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.base))
    weights = {}
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in TARGETS:
            ends = {
                "A": (options.rank, module.in_features),
                "B": (module.out_features, options.rank),
            }
            for matrix, shape in ends.items():
                values = SCALE * torch.randn(shape)
                weights[f"base_model.model.{name}.lora_{matrix}.weight"] = values.to(torch.bfloat16)
    if not weights:
        refuse(f"--base {options.base} has none of the projections {', '.join(TARGETS)}")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": options.rank,
        "lora_alpha": 2 * options.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(TARGETS),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    save_file(weights, options.out / "adapter_model.safetensors")
    (options.out / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
    say(f"a LoRA adapter of rank {options.rank}, {len(weights) // 2} projections")


if __name__ == "__main__":
    main()
