"""`vllm bench serve`: its words for a load point, and its result as replies.

Its numbers are as it defines them: in a chat the first chunk, which names the role, is its first
token. It draws its own arrivals, and tells neither when a request was due nor what a usage said of
the prefix cache.
"""

import json
from pathlib import Path

from servetune.load.generator import Destination, Driver, Reply
from servetune.records.loads import Load
from servetune.sentences import sentence
from servetune.study.generators import PATHS

RESULT = "vllm-bench.json"


def arguments(load: Load, destination: Destination) -> list[str]:
    """Write a load point as the words after `vllm bench serve`."""
    assert load.requests is not None
    requests = load.requests + load.settle_requests + load.cooldown_requests
    words = [
        *("--backend", "openai-chat" if load.is_chat else "openai"),
        *("--endpoint", PATHS[load.endpoint], "--base-url", destination.url),
        *("--model", str(destination.tokenizer), "--served-model-name", destination.served_name),
        *("--dataset-name", "custom", "--dataset-path", str(destination.schedule)),
        *("--num-prompts", str(requests), "--custom-output-len", "-1"),
        *("--skip-chat-template", "--disable-shuffle", "--seed", str(load.seed)),
        *("--num-warmups", "0", "--ready-check-timeout-sec", "0"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99"),
        *("--save-result", "--save-detailed", "--result-dir", str(destination.raw)),
        *("--result-filename", RESULT, "--disable-tqdm"),
    ]
    if load.ignore_eos:
        words.append("--ignore-eos")
    for name, value in load.sampling.model_dump(exclude_none=True).items():
        # Joined: vLLM's parser takes a word that begins with a minus for an option.
        words.append(f"--{name.replace('_', '-')}={value}")
    if load.concurrency is not None:
        words += ["--max-concurrency", str(load.concurrency)]
    if load.rate_rps is not None:
        words += ["--request-rate", str(load.rate_rps)]
        # An infinite burstiness makes vLLM's arrivals constant.
        burstiness = "inf" if load.arrivals == "constant" else load.burstiness
        if burstiness is not None:
            words += ["--burstiness", str(burstiness)]
    return words


def read(raw: Path) -> list[Reply]:
    """Read the detailed result; raises KeyError, ValueError or OSError if it is bad."""
    result = json.loads((raw / RESULT).read_bytes())
    names = (
        *("errors", "start_times", "input_lens", "output_lens", "ttfts", "itls"),
        "generated_texts",
    )
    measured = zip(*(result[name] for name in names), strict=True)
    replies = []
    for index, (error, sent_s, input_tokens, output_tokens, ttft_s, itl_s, text) in enumerate(
        measured
    ):
        reply = Reply(
            scheduled=index,
            error=sentence(error.strip().splitlines()[-1]) if error.strip() else None,
            sent_s=sent_s,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            # A request without a first token is told by a TTFT of 0.
            ttft_s=ttft_s or None,
            e2e_s=ttft_s + sum(itl_s) or None,
            itl_s=itl_s,
            text=text,
        )
        replies.append(reply)
    return replies


DRIVER = Driver(
    client="servetune.load.others.runner",
    key_variable="OPENAI_API_KEY",
    program=("-m", "vllm.entrypoints.cli.main", "bench", "serve"),
    arguments=arguments,
    read=read,
)
