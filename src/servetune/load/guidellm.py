"""GuideLLM: its words for a load point, and its report as a request table.

GuideLLM keeps the first and last token's time of a request but not the chunks between them, so
its tables have no ITL. What it calls inter-token latency is TPOT here and in vLLM.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servetune.load.generator import Generator, Target

if TYPE_CHECKING:
    import pandas as pd

REPORT = "guidellm.json"


def arguments(load: dict[str, Any], target: Target) -> list[str]:
    """Write a load point as the words after `guidellm run`."""
    body = {"temperature": load["temperature"]}
    if not load["ignore_eos"]:
        body["ignore_eos"] = False
    extras = "".join(f",extras.body.{name}={json.dumps(value)}" for name, value in body.items())
    profile = (
        f"kind=concurrent,streams={load['concurrency']}"
        if load["concurrency"]
        else f"kind=poisson,rate={load['rate_rps']}"
    )
    columns = "column_mappings.text_column=prompt"
    columns += ",column_mappings.output_tokens_count_column=output_tokens"
    return [
        "--backend",
        f"kind=openai_http,target={target.url},model={target.served_name}"
        f",request_format=/v1/completions{extras}",
        *("--profile", profile),
        *("--constraint", f"kind=max_requests,count={load['requests']}"),
        *("--tokenizer", f"kind=hf_auto,model={target.tokenizer}"),
        *("--data", f"kind=json_file,path={target.dataset}"),
        *("--data-column-mapper", f"kind=generative_column_mapper,{columns}"),
        *("--seed", f"kind=static,value={load['seed']}"),
        *("--output", f"kind=json,path={target.raw / REPORT}", "--disable-console"),
    ]


def read(raw: Path) -> "pd.DataFrame":
    """Read the report into a request table; raises KeyError or OSError if it is bad."""
    from servetune.load.requests import request_row, request_table

    told = json.loads((raw / REPORT).read_bytes())["benchmarks"][0]["requests"]
    requests = [*told["successful"], *told["errored"], *told["incomplete"]]
    rows = []
    for index, request in enumerate(requests):
        info, times = request["info"], request["info"]["timings"]
        sent = times["request_start"] or times["resolve_start"] or times["targeted_start"]
        first, last = times["first_token_iteration"], times["last_token_iteration"]
        is_complete = info["status"] == "completed"
        rows.append(
            request_row(
                request=index,
                error=None if is_complete else info["error"] or info["status"],
                start_s=sent,
                input_tokens=request["prompt_tokens"] or 0,
                output_tokens=request["output_tokens"] or 0,
                ttft_s=first - sent if first else None,
                e2e_s=last - sent if last else None,
                itl_s=[],
            )
        )
    return request_table(rows)


def refuses(load: dict[str, Any], dataset_kind: str, dataset_requests: int) -> str | None:
    """Say why GuideLLM cannot do a load: it takes text, and sends each request once."""
    if dataset_kind == "random":
        return "guidellm sends text, not token ids; vllm-bench sends both"
    if load["requests"] > dataset_requests:
        return (
            f"guidellm sends each request of a dataset once, and it has {dataset_requests};"
            " vllm-bench starts again from its first"
        )
    return None


GUIDELLM = Generator(
    name="guidellm",
    environment="guidellm",
    client="servetune.load.guidellm_client",
    key_variable="GUIDELLM__SPEC__BACKEND__API_KEY",
    command=("guidellm", "run"),
    arguments=arguments,
    read=read,
    refuses=refuses,
)
