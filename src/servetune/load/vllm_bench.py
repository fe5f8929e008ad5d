"""`vllm bench serve`: its words for a load point, and its result as a request table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetune.load.generator import Generator, Target

if TYPE_CHECKING:
    import pandas as pd

RESULT = "vllm-bench.json"


def arguments(load: dict[str, Any], target: Target) -> list[str]:
    """Write a load point as the words after `vllm bench serve`."""
    words = [
        *("--backend", "openai", "--base-url", target.url, "--endpoint", "/v1/completions"),
        *("--model", str(target.tokenizer), "--served-model-name", target.served_name),
        *("--dataset-name", "custom", "--dataset-path", str(target.dataset)),
        *("--custom-output-len", "-1", "--skip-chat-template", "--disable-shuffle"),
        *("--num-prompts", str(load["requests"]), "--num-warmups", "0"),
        *("--temperature", str(load["temperature"]), "--seed", str(load["seed"])),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99"),
        *("--save-result", "--save-detailed", "--result-dir", str(target.raw)),
        *("--result-filename", RESULT, "--disable-tqdm", "--ready-check-timeout-sec", "0"),
    ]
    if load["ignore_eos"]:
        words.append("--ignore-eos")
    if load["concurrency"]:
        return [*words, "--max-concurrency", str(load["concurrency"])]
    return [*words, "--request-rate", str(load["rate_rps"])]


def read(raw: Path) -> "pd.DataFrame":
    """Read the detailed result into a request table; raises KeyError or OSError if it is bad."""
    from servetune.load.requests import request_row, request_table

    result = json.loads((raw / RESULT).read_bytes())
    rows = [
        request_row(
            request=index,
            error=result["errors"][index].strip().splitlines()[-1]
            if result["errors"][index].strip()
            else None,
            start_s=result["start_times"][index],
            input_tokens=result["input_lens"][index],
            output_tokens=result["output_lens"][index],
            # A request without a first token is told by a TTFT of 0.
            ttft_s=result["ttfts"][index] or None,
            e2e_s=result["ttfts"][index] + sum(result["itls"][index]),
            itl_s=result["itls"][index],
        )
        for index in range(len(result["ttfts"]))
    ]
    return request_table(rows)


def refuses(load: dict[str, Any], dataset_kind: str, dataset_requests: int) -> str | None:
    """Say why this generator cannot do a load: it does all that a study can declare."""
    return None


VLLM_BENCH = Generator(
    name="vllm-bench",
    environment=None,
    client="servetune.load.vllm_bench_client",
    key_variable="OPENAI_API_KEY",
    command=("vllm", "bench", "serve"),
    arguments=arguments,
    read=read,
    refuses=refuses,
)
