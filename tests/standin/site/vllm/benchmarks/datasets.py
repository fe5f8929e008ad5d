"""Requests of the load client: vLLM's `SampleRequest`, and the `custom` dataset."""

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tokenizers import TokenizerLike


@dataclass
class SampleRequest:
    prompt: str | list[int] | list[str]
    prompt_len: int
    expected_output_len: int = 0
    multi_modal_data: Any = None
    lora_request: Any = None
    request_id: str | None = None
    timestamp: float | None = None
    chat_messages: list[dict[str, Any]] | None = None
    request_overrides: dict[str, Any] | None = None


def add_dataset_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num-prompts", type=int, default=1000)
    parser.add_argument("--dataset-name", choices=["custom"], default="custom")
    parser.add_argument("--dataset-path", type=str)
    parser.add_argument("--no-stream", action="store_true")
    parser.add_argument("--no-oversample", action="store_true")
    parser.add_argument("--skip-chat-template", action="store_true")
    parser.add_argument("--disable-shuffle", action="store_true")
    parser.add_argument("--custom-output-len", type=int, default=256)


def get_samples(args: argparse.Namespace, tokenizer: TokenizerLike | None) -> list[SampleRequest]:
    """Read `prompt` and `output_tokens` a line; too few lines are repeated, as vLLM does."""
    rows = [json.loads(line) for line in Path(args.dataset_path).read_text().splitlines()]
    if not args.disable_shuffle:
        random.Random(args.seed).shuffle(rows)
    wanted = args.num_prompts
    while len(rows) < wanted and not args.no_oversample:
        rows += rows[: wanted - len(rows)]
    return [_sample(row, index, args, tokenizer) for index, row in enumerate(rows[:wanted])]


def _sample(
    row: dict[str, Any], index: int, args: argparse.Namespace, tokenizer: TokenizerLike | None
) -> SampleRequest:
    output_len = args.custom_output_len
    return SampleRequest(
        prompt=row["prompt"],
        prompt_len=len(tokenizer.encode(row["prompt"])) if tokenizer else 1,
        expected_output_len=row["output_tokens"] if output_len == -1 else output_len,
        request_id=f"{args.request_id_prefix}{index}",
    )
