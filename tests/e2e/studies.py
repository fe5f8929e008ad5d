"""What real vLLM serves in these tests: the quickstart and unfit servers, and one for all loads."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from servetune.corpus import passage

GENERATORS = ("servetune", "vllm-bench", "guidellm")
EXAMPLES = 20
MOST_REQUESTS = 1000

# Slow enough that a busy machine keeps up: else its own speed at the time is the throughput.
ALIKE = {
    "dataset": "alike",
    "arrivals": "constant",
    "load_points": [{"rate_rps": 2.5, "requests": 20}],
}
WORDS = {"min": 32, "max": 64}
FEW = [{"concurrency": clients, "requests": sent} for clients, sent in ((1, 6), (4, 16), (8, 32))]
LONG = {
    "dataset": "long",
    "warmup_requests": 0,
    "load_points": [{"concurrency": 2, "requests": 12}],
}
TASK = {
    "task": "endings",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "evaluation/endings.jsonl"}},
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": "acc"}],
}


def with_unfit_servers(quickstart: dict[str, Any]) -> dict[str, Any]:
    """The quickstart with an fp8 KV cache, less to send, and an unfit variant with own loads.

    Its prompts begin with words of their own, and its answers have one length.

    Of `unfit`, two sequences are too few for many short requests, and a KV cache of 640 tokens
    too small for two long ones.
    """
    study = {**quickstart}
    many = {"dataset": "text", "load_points": [{"concurrency": 8, "requests": 32}]}
    long = {"dataset": "growing", "load_points": [{"concurrency": 2, "requests": 8}]}
    study["datasets"] = {
        **quickstart["datasets"],
        "text": {"kind": "text", "requests": 64, "input_words": WORDS, "output_tokens": 64},
        "growing": {"kind": "text", "requests": 8, "input_words": 220, "output_tokens": 128},
    }
    study["workloads"] = {
        "text": {"dataset": "text", "load_points": FEW},
        "many": many,
        "long": long,
    }
    study["quality"] = {**quickstart["quality"], "documents": 12}
    study["models"] = {**study["models"], "broken": {"source": "path", "path": "broken"}}
    variants = {**quickstart["variants"]}
    del variants["no-prefix-cache"]
    variants["fp8-kv"] = {"model": "tiny", "server": {"kv_cache_dtype": "fp8"}}
    declared = {
        name: {"workloads": list(quickstart["workloads"]), **variant}
        for name, variant in variants.items()
    }
    small = {
        "max_num_seqs": 2,
        "num_gpu_blocks_override": 20,
        "block_size": 32,
        "max_model_len": 512,
    }
    study["variants"] = {
        **declared,
        "unfit": {"model": "broken", "server": small, "workloads": ["many", "long"]},
    }
    return study


def one_server_for_all_loads(quickstart: dict[str, Any]) -> dict[str, Any]:
    """A study whose one server, the quickstart's baseline, takes loads of every kind."""
    tasks = {"tasks": ["endings"], "folder": "evaluation", "limit": EXAMPLES}
    dialogues = {"dataset": "dialogues", "load_points": [{"concurrency": 2, "requests": 24}]}
    return {
        **quickstart,
        "variants": {"bf16": {"model": "tiny"}},
        "quality": {"corpus": "short", "documents": 4, "lm_eval": tasks},
        # Small blocks, so that a turn's share of whole blocks is close to that of its tokens.
        "server": {**quickstart["server"], "block_size": 32},
        "datasets": {
            "alike": {"kind": "text", "requests": 20, "input_words": 48, "output_tokens": 16},
            "long": {"kind": "text", "requests": 12, "input_words": 300, "output_tokens": 8},
            "short": {"kind": "text", "requests": 256, "input_words": 32, "output_tokens": 8},
            "dialogues": {
                "kind": "conversations",
                "conversations": 6,
                "turns": 4,
                "starters": {"count": 3, "words": 120},
                "follow_up_words": 50,
                "output_tokens": 32,
            },
        },
        "workloads": {
            **{name: {"generator": name, **ALIKE} for name in GENERATORS},
            "cold": LONG,
            "again-cold": LONG,
            "again-warm": {**LONG, "reset_prefix_cache": False},
            "dialogues": dialogues,
            "dialogues-guidellm": {"generator": "guidellm", **dialogues},
            "hopeless": {
                "dataset": "short",
                "capacity": {
                    "slo": {"impossible": {"tpot_p90_ms": 0.01}},
                    "lowest": 20,
                    "highest": 40,
                    "probe_requests": MOST_REQUESTS,
                },
            },
        },
    }


def write_task(folder: Path) -> None:
    """Write a task that asks for the right order of the words that end a story."""
    folder.mkdir()
    (folder / "endings.yaml").write_text(yaml.safe_dump(TASK))
    with (folder / "endings.jsonl").open("w") as file:
        for seed in range(2 * EXAMPLES):
            words = passage(90_000 + seed, 40).split()
            endings = [" ".join(words[34:]), " ".join(reversed(words[34:]))]
            question, right = " ".join(words[:34]), seed % 2
            choices = endings[::-1] if right else endings
            row = {"question": question, "choices": choices, "answer": right}
            file.write(json.dumps(row) + "\n")


def double_scales(checkpoint: Path, out: Path) -> None:
    """Copy a w8a8 checkpoint, and double the scale of every other channel of its weights."""
    shutil.copytree(checkpoint, out)
    (out / "servetune.json").unlink()
    file = out / "model.safetensors"
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[:8], "little")
    for name, told in json.loads(content[8 : 8 + length]).items():
        if name.endswith("weight_scale"):
            assert told["dtype"] == "BF16"
            begin, end = (8 + length + offset for offset in told["data_offsets"])
            scales = np.frombuffer(content[begin:end], "<u2").copy()
            # One more in the exponent of a bfloat16, which is above its seven bits of mantissa.
            scales[::2] += 1 << 7
            content[begin:end] = scales.tobytes()
    file.write_bytes(content)
