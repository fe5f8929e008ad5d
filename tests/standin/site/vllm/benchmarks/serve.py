"""`vllm bench serve`, as far as it is used: the options, the load and the result of the real one.

It really sends its requests, so that what is measured with it is a measurement.
"""

import argparse
import asyncio
import contextlib
import json
import random
import time
import uuid
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from ..tokenizers import get_tokenizer
from .datasets import SampleRequest, add_dataset_parser, get_samples
from .lib.endpoint_request_func import (
    ASYNC_REQUEST_FUNCS,
    RequestFuncInput,
    RequestFuncOutput,
)

SAMPLING = (
    *("top_p", "min_p", "temperature"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
)
DETAILS = (
    *("input_lens", "output_lens", "start_times", "ttfts", "itls"),
    *("generated_texts", "errors"),
)


def add_cli_args(parser: argparse.ArgumentParser) -> None:
    add_dataset_parser(parser)
    for name in ("label", "base_url", "model", "tokenizer", "served_model_name"):
        parser.add_argument(_option(name), type=str)
    for name in ("percentile_metrics", "result_dir", "result_filename"):
        parser.add_argument(_option(name), type=str)
    for name in SAMPLING:
        parser.add_argument(_option(name), type=float)
    for name in ("disable_tqdm", "ignore_eos", "profile", "save_result", "save_detailed"):
        parser.add_argument(_option(name), action="store_true")
    parser.add_argument("--backend", choices=list(ASYNC_REQUEST_FUNCS), default="openai")
    parser.add_argument("--host", type=str, default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--endpoint", type=str, default="/v1/completions")
    parser.add_argument("--header", metavar="KEY=VALUE", nargs="*")
    parser.add_argument("--metadata", metavar="KEY=VALUE", nargs="*")
    parser.add_argument("--max-concurrency", type=int)
    parser.add_argument("--request-rate", type=float, default=float("inf"))
    parser.add_argument("--burstiness", type=float, default=1.0)
    parser.add_argument("--num-warmups", type=int, default=0)
    parser.add_argument("--ready-check-timeout-sec", type=int, default=0)
    parser.add_argument("--metric-percentiles", type=str, default="99")
    parser.add_argument("--tokenizer-mode", type=str, default="auto")
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--extra-body", type=json.loads)
    parser.add_argument("--request-id-prefix", default=f"bench-{uuid.uuid4().hex[:8]}-")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


async def main_async(args: argparse.Namespace) -> dict[str, Any]:
    if args.max_concurrency is not None and args.max_concurrency <= 0:
        raise ValueError("--max-concurrency must be greater than 0")
    random.seed(args.seed)
    np.random.seed(args.seed)
    tokenizer = get_tokenizer(args.tokenizer or args.model, tokenizer_mode=args.tokenizer_mode)
    requests = get_samples(args, tokenizer)
    measured = await benchmark(args, requests)
    now = datetime.now().strftime("%Y%m%d-%H%M%S")
    result = {
        "date": now,
        "endpoint_type": args.backend,
        "backend": args.backend,
        "label": args.label,
        "model_id": args.model,
        "tokenizer_id": args.tokenizer or args.model,
        "num_prompts": args.num_prompts,
        **_pairs(args.metadata),
        "request_rate": args.request_rate if args.request_rate < float("inf") else "inf",
        "burstiness": args.burstiness,
        "max_concurrency": args.max_concurrency,
        **measured,
    }
    if not args.save_detailed:
        result = {key: value for key, value in result.items() if key not in DETAILS}
    if args.save_result:
        path = _result_file(args, now)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))
    return result


async def benchmark(args: argparse.Namespace, requests: list[SampleRequest]) -> dict[str, Any]:
    base_url = args.base_url or f"http://{args.host}:{args.port}"
    send = ASYNC_REQUEST_FUNCS[args.backend]
    connector = aiohttp.TCPConnector(limit=args.max_concurrency or 0)
    timeout = aiohttp.ClientTimeout(total=6 * 60 * 60)

    def gate() -> Any:
        limit = args.max_concurrency
        return asyncio.Semaphore(limit) if limit else contextlib.nullcontext()

    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trust_env=True
    ) as session:
        warm = replace(_input(args, base_url, requests[0]), request_id=None)
        print(f"Warming up with {args.num_warmups} requests...", flush=True)
        await asyncio.gather(
            *[_gated(send, warm, session, warming) for warming in [gate()] * args.num_warmups]
        )
        print("Starting main benchmark run...", flush=True)
        began, counting, tasks = time.perf_counter(), gate(), []
        async for request, _ in get_request(requests, args.request_rate, args.burstiness):
            asked = _input(args, base_url, request)
            tasks.append(asyncio.create_task(_gated(send, asked, session, counting)))
        outputs = await asyncio.gather(*tasks)
        duration = time.perf_counter() - began
    result = _totals(outputs, duration)
    for name, values in _latencies(outputs, args).items():
        result |= _statistics(name, values, args.metric_percentiles)
    print(f"Successful requests: {result['completed']}, failed: {result['failed']}", flush=True)
    return result


def _input(args: argparse.Namespace, base_url: str, request: SampleRequest) -> RequestFuncInput:
    names = (*SAMPLING, "top_k")
    sampling = {k: getattr(args, k) for k in names if getattr(args, k) is not None}
    return RequestFuncInput(
        prompt=request.prompt,
        api_url=base_url + args.endpoint,
        prompt_len=request.prompt_len,
        output_len=request.expected_output_len,
        model=args.model,
        model_name=args.served_model_name,
        extra_headers=_pairs(args.header),
        extra_body={**sampling, **(args.extra_body or {}), **(request.request_overrides or {})},
        ignore_eos=args.ignore_eos,
        request_id=request.request_id,
        chat_messages=request.chat_messages,
    )


async def _gated(
    send: Any, asked: RequestFuncInput, session: aiohttp.ClientSession, gate: Any
) -> RequestFuncOutput:
    arrived = time.perf_counter()
    async with gate:
        output: RequestFuncOutput = await send(request_func_input=asked, session=session)
    output.client_queue_time = output.start_time - arrived
    return output


async def get_request(
    input_requests: list[SampleRequest],
    request_rate: float,
    burstiness: float = 1.0,
    ramp_up_strategy: str | None = None,
    ramp_up_start_rps: int | None = None,
    ramp_up_end_rps: int | None = None,
    self_timed: bool = False,
) -> AsyncGenerator[tuple[SampleRequest, float], None]:
    """Yield requests when they are due; gamma-distributed gaps, scaled to the rate asked for."""
    count = len(input_requests)
    gaps = np.zeros(count)
    if request_rate < float("inf"):
        gaps = np.random.gamma(burstiness, 1 / (request_rate * burstiness), count)
        gaps *= count / request_rate / gaps.sum()
    began = time.time()
    for request, due in zip(input_requests, np.cumsum(gaps), strict=True):
        if (wait := began + due - time.time()) > 0:
            await asyncio.sleep(wait)
        yield request, request_rate


def _totals(outputs: list[RequestFuncOutput], duration: float) -> dict[str, Any]:
    done = [output for output in outputs if output.success]
    output_lens = [output.output_tokens if output.success else 0 for output in outputs]
    total_input, total_output = sum(output.prompt_len for output in done), sum(output_lens)
    return {
        "duration": duration,
        "completed": len(done),
        "failed": len(outputs) - len(done),
        "total_input_tokens": total_input,
        "total_output_tokens": total_output,
        "request_throughput": len(done) / duration,
        "request_goodput": None,
        "output_throughput": total_output / duration,
        "total_token_throughput": (total_input + total_output) / duration,
        "input_lens": [output.prompt_len for output in outputs],
        "output_lens": output_lens,
        "ttfts": [output.ttft for output in outputs],
        "itls": [output.itl for output in outputs],
        "latencies": [output.latency for output in outputs],
        "start_times": [output.start_time for output in outputs],
        "queue_times": [output.client_queue_time for output in outputs],
        "generated_texts": [output.generated_text for output in outputs],
        "errors": [output.error for output in outputs],
    }


def _latencies(
    outputs: list[RequestFuncOutput], args: argparse.Namespace
) -> dict[str, list[float]]:
    done = [output for output in outputs if output.success]
    values = {
        "ttft": [output.ttft for output in done],
        "tpot": [
            (output.latency - output.ttft) / (output.output_tokens - 1)
            for output in done
            if output.output_tokens > 1
        ],
        "itl": [gap for output in done for gap in output.itl],
        "e2el": [output.latency for output in done],
        "client_queue_time": [output.client_queue_time for output in done],
    }
    asked = (args.percentile_metrics or "ttft,tpot,itl").split(",")
    return {name: values[name] for name in asked if name in values}


def _statistics(name: str, seconds: list[float], percentiles: str) -> dict[str, float]:
    ms = np.array(seconds or [0.0]) * 1000
    found = {f"mean_{name}_ms": ms.mean(), f"median_{name}_ms": np.median(ms)}
    found[f"std_{name}_ms"] = ms.std()
    for percentile in percentiles.split(","):
        word = f"{float(percentile):g}"
        found[f"p{word}_{name}_ms"] = np.percentile(ms, float(percentile))
    return {key: float(value) for key, value in found.items()}


def _result_file(args: argparse.Namespace, now: str) -> Path:
    limit = f"-concurrency{args.max_concurrency}" if args.max_concurrency else ""
    model = str(args.model).rsplit("/", 1)[-1]
    name = f"{args.label or args.backend}-{args.request_rate}qps{limit}-{model}-{now}.json"
    return Path(args.result_dir or ".") / (args.result_filename or name)


def _pairs(words: list[str] | None) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (w.partition("=") for w in words or [])}
