"""The arguments of `vllm serve` that the stand-in knows, with vLLM's names, types and choices.

Those that begin with `standin` are its own: they make it misbehave on purpose, slower or worse.
"""

import argparse
import json
from typing import Any

KV_CACHE_DTYPES = (
    *("auto", "bfloat16", "float16", "fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc"),
    *("fp8_per_token_head", "int4_per_token_head", "int8_per_token_head", "nvfp4"),
    *("nvfp4_4over6", "nvfp4_ds_mla", "turboquant_3bit_nc", "turboquant_4bit_nc"),
    *("turboquant_k3v4_nc", "turboquant_k8v4", "ultraquant_4bit"),
)
DTYPES = ("auto", "bfloat16", "float", "float16", "float32", "half")

NUMBERS = {
    "block_size": (int, 16),
    "cpu_offload_gb": (float, 0.0),
    "gpu_memory_utilization": (float, 0.9),
    "max_num_seqs": (int, 128),
    "pipeline_parallel_size": (int, 1),
    "port": (int, 8000),
    "seed": (int, 0),
    "tensor_parallel_size": (int, 1),
}
TEXTS = {
    "load_format": "auto",
    "model": None,
    "tokenizer": None,
}
FLAGS = {
    "async_scheduling": None,
    "enable_chunked_prefill": True,
    "enable_log_requests": False,
    "enable_mfu_metrics": False,
    "enable_prefix_caching": True,
    "enable_prompt_tokens_details": False,
    "enable_scale_out": False,
    "enforce_eager": False,
    "trust_remote_code": False,
}

FAULTS = {
    "none": "behave",
    "refuse-start": "exit as if the KV cache were too small",
    "refuse-arguments": "exit as if its arguments did not go together",
    "killed": "be killed as it starts, as where a host runs out of memory",
    "slow-start": "listen only after --standin-fault-after seconds",
    "wrong-name": "serve another model than was asked for",
    "die-under-load": "exit 1 after --standin-fault-after requests",
    "die-slowly": "as die-under-load, but what it started lives on until it is killed",
    "hang-under-load": "answer nothing, /health neither, after --standin-fault-after requests",
    "stall-under-load": "after --standin-fault-after requests wait until $STANDIN_GATE exists",
    "fail-requests": "answer 500 to every --standin-fault-after-th request",
    "refuse-requests": "answer 400 to every --standin-fault-after-th request",
    "compile": "log of every --standin-fault-after-th request that a kernel was compiled for it",
    "ignore-sigterm": "go on after SIGTERM",
    "short-answers": "end every --standin-fault-after-th answer one token early",
    "no-prompt-logprobs": "answer 400 to a request for the log probabilities of its prompt",
    "never-abort": "go on generating for a client that has gone",
    "no-reset": "answer 500 when its prefix cache is to be emptied",
    "meet": "be ready only beside --standin-fault-after - 1 others",
    "leave-child": "start a child that outlives it, unless its process group is ended",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_tag", type=str, nargs="?")
    for name, (convert, default) in NUMBERS.items():
        parser.add_argument(_option(name), type=convert, default=default)
    for name, text in TEXTS.items():
        parser.add_argument(_option(name), type=str, default=text)
    for name, flag in FLAGS.items():
        parser.add_argument(_option(name), action=argparse.BooleanOptionalAction, default=flag)
    parser.add_argument("--disable-log-stats", action="store_true")
    parser.add_argument("--dtype", type=str, default="auto", choices=DTYPES)
    parser.add_argument("--kv-cache-dtype", type=str, default="auto", choices=KV_CACHE_DTYPES)
    parser.add_argument("--middleware", type=str, action="append", default=[])
    parser.add_argument("--served-model-name", nargs="+")
    for name in ("host", "quantization", "revision", "uds"):
        parser.add_argument(_option(name))
    for name in (
        *("compilation_config", "hf_overrides", "kv_transfer_config", "speculative_config"),
    ):
        parser.add_argument(_option(name), type=_json)
    parser.add_argument("--max-model-len", type=_tokens)
    parser.add_argument("--max-num-batched-tokens", type=_tokens, default=2048)
    parser.add_argument("--num-gpu-blocks-override", type=_tokens)
    parser.add_argument("--standin-fault", type=str, choices=tuple(FAULTS), default="none")
    parser.add_argument("--standin-fault-after", type=int, default=8)
    parser.add_argument("--standin-step-ms", type=float, default=2.0)
    parser.add_argument("--standin-loss-nats", type=float, default=0.0)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _json(text: str) -> Any:
    return json.loads(text)


def _tokens(text: str) -> int:
    """Read a number of tokens: 2048, 2k (2000) or 2K (2048)."""
    factor = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}.get(text[-1], 1)
    return int(float(text[:-1]) * factor) if factor > 1 else int(text)
