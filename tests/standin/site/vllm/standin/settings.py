"""What the engine was asked to be: arguments resolved as vLLM resolves them, or refused."""

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KV_CACHE_TOKENS = 524_288
KV_CACHE_GIB = 1.0


@dataclass(frozen=True)
class Speculation:
    """Drafts of `tokens` tokens, each accepted with `probability` if those before it were."""

    method: str
    tokens: int
    probability: float


@dataclass(frozen=True)
class EngineSettings:
    model: str
    served_model_names: tuple[str, ...]
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    enable_prefix_caching: bool
    enable_prompt_tokens_details: bool
    seed: int
    step_s: float
    loss_nats: float
    speculation: Speculation | None
    kv_transfer_config: dict[str, Any] | None
    enable_scale_out: bool

    @property
    def kv_cache_tokens(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def max_concurrency(self) -> float:
        return self.kv_cache_tokens / self.max_model_len


def resolve(args: argparse.Namespace) -> EngineSettings:
    """Resolve what was asked for.

    Raises:
        ValueError: vLLM would not start so; the message is vLLM's.
    """
    if args.max_num_batched_tokens < args.max_num_seqs:
        raise ValueError(
            f"max_num_batched_tokens ({args.max_num_batched_tokens}) must be greater than or equal"
            f" to max_num_seqs ({args.max_num_seqs})."
        )
    if args.standin_fault == "refuse-arguments":
        raise ValueError("These arguments are not supported together.")
    model = args.model_tag or args.model
    config = _read_config(model)
    max_model_len = args.max_model_len or config.get("max_position_embeddings", 4096)
    halved = args.kv_cache_dtype.startswith("fp8")
    num_blocks = KV_CACHE_TOKENS // args.block_size * (2 if halved else 1)
    num_blocks = args.num_gpu_blocks_override or num_blocks
    _check_kv_cache(max_model_len, num_blocks, args.block_size, refuse=args.standin_fault)
    names = tuple(args.served_model_name or [model])
    return EngineSettings(
        model=model,
        served_model_names=("someone-else",) if args.standin_fault == "wrong-name" else names,
        max_model_len=max_model_len,
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        block_size=args.block_size,
        num_blocks=num_blocks,
        enable_prefix_caching=args.enable_prefix_caching,
        enable_prompt_tokens_details=args.enable_prompt_tokens_details,
        seed=args.seed,
        step_s=args.standin_step_ms / 1000,
        loss_nats=args.standin_loss_nats,
        speculation=_speculation(args.speculative_config),
        kv_transfer_config=args.kv_transfer_config,
        # Versions without the flag answer what it opens.
        enable_scale_out=getattr(args, "enable_scale_out", True),
    )


def kv_cache_device() -> str:
    return os.environ.get("STANDIN_DEVICE", "CPU")


def _read_config(model: str | None) -> dict[str, Any]:
    path = Path(model or "") / "config.json"
    if model is None or not path.is_file():
        raise ValueError(
            f"Invalid repository ID or local directory specified: {model!r}. Please verify that"
            " it holds a config.json."
        )
    config: dict[str, Any] = json.loads(path.read_text())
    return config


def _check_kv_cache(max_model_len: int, num_blocks: int, block_size: int, refuse: str) -> None:
    # One block is never handed out, in vLLM as here.
    room = (num_blocks - 1) * block_size
    if max_model_len <= room and refuse != "refuse-start":
        return
    gib_per_token = KV_CACHE_GIB / (num_blocks * block_size)
    raise ValueError(
        "To serve at least one request with the model's max seq len "
        f"({max_model_len}), ({max_model_len * gib_per_token:.2f} GiB KV cache is needed, which"
        f" is larger than the available KV cache memory ({KV_CACHE_GIB} GiB). Based on the"
        f" available memory, the estimated maximum model length is {room}. Try increasing"
        " `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or"
        " decreasing `max_model_len` when initializing the engine. See"
        " https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
    )


def _speculation(config: dict[str, Any] | None) -> Speculation | None:
    if not config:
        return None
    tokens = int(config["num_speculative_tokens"])
    length = config.get("synthetic_acceptance_length")
    probability = 0.6 if length is None else _probability(tokens, float(length))
    return Speculation(str(config.get("method", "draft_model")), tokens, probability)


def _probability(tokens: int, length: float) -> float:
    """Find the probability whose mean acceptance length, 1 + p + p^2 ..., is as asked."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        reached = sum(middle**position for position in range(tokens + 1))
        low, high = (middle, high) if reached < length else (low, middle)
    return high
