"""Runs in the engine's environment: `vllm bench serve`'s own code, without its start-up.

Each job is `{"argv": [...]}`: the words after `vllm bench serve`. The requests are those of
the dataset in their order; a prompt may be text or token ids, which the command-line tool's
own JSONL reader does not take.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from vllm.benchmarks import serve
from vllm.benchmarks.datasets import SampleRequest
from vllm.utils.argparse_utils import FlexibleArgumentParser

from servetune.load.loop import serve_jobs


def read_requests(args: Any, tokenizer: Any) -> list[Any]:
    """Read `num_prompts` requests from the dataset, from its start again where it ends."""
    lines = Path(args.dataset_path).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        _request(index, rows[index % len(rows)], tokenizer) for index in range(args.num_prompts)
    ]


def _request(index: int, row: dict[str, Any], tokenizer: Any) -> Any:
    prompt = row["prompt"]
    length = len(tokenizer(prompt).input_ids) if isinstance(prompt, str) else len(prompt)
    return SampleRequest(
        prompt=prompt,
        prompt_len=length,
        expected_output_len=row["output_tokens"],
        request_id=f"{index}",
    )


def run(job: dict[str, Any]) -> None:
    """Run one load point as `vllm bench serve` would."""
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    asyncio.run(serve.main_async(parser.parse_args(job["argv"])))


if __name__ == "__main__":
    serve.get_samples = read_requests
    serve_jobs(run)
