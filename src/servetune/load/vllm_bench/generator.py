"""`vllm bench serve`: its words for a load point, and its result as replies.

Its own words cannot say all that a load may be; servetune sends the requests when they are due by
the schedule, and vLLM's code measures them.
"""

import json
from pathlib import Path

from servetune.load.generator import CUT, NOT_SENT, PATHS, Generator, Reply, Target
from servetune.load.stream import Note, sentence
from servetune.records.loads import Load

RESULT = "vllm-bench.json"
SENT = "sent.json"


def arguments(load: Load, target: Target) -> list[str]:
    """Write a load point as the words after `vllm bench serve`."""
    words = [
        *("--backend", "openai-chat" if load.is_chat else "openai"),
        *("--endpoint", PATHS[load.endpoint], "--base-url", target.url),
        *("--model", str(target.tokenizer), "--served-model-name", target.served_name),
        *("--dataset-name", "custom", "--dataset-path", str(target.schedule)),
        *("--custom-output-len", "-1", "--skip-chat-template", "--disable-shuffle"),
        *("--num-warmups", "0", "--ready-check-timeout-sec", "0", "--seed", str(load.seed)),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99"),
        *("--save-result", "--save-detailed", "--result-dir", str(target.raw)),
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
    result, sent = (json.loads((raw / name).read_bytes()) for name in (RESULT, SENT))
    is_chat = result["backend"] == "openai-chat"
    names = (
        *("errors", "start_times", "input_lens", "output_lens", "ttfts", "itls"),
        "generated_texts",
    )
    measured = zip(*(result[name] for name in names), strict=True)
    noted = zip(sent["scheduled"], sent["arrival_s"], sent["notes"], strict=True)
    replies = []
    for (scheduled, arrival_s, told), values in zip(noted, measured, strict=True):
        error, sent_s, input_tokens, output_tokens, all_ttft_s, all_itl_s, text = values
        ttft_s, itl_s = of_text(all_ttft_s, all_itl_s, is_chat)
        note = Note(**told)
        reply = Reply(
            scheduled=scheduled,
            error=_error(error, note),
            sent_s=sent_s,
            due_s=None if arrival_s is None else sent["began_s"] + arrival_s,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=note.cached_tokens,
            has_usage=note.has_usage,
            model=note.model,
            text=note.text_with(text),
            textless_tokens=note.textless_tokens,
            # A request without a first token is told by a TTFT of 0.
            ttft_s=ttft_s or None,
            e2e_s=all_ttft_s + sum(all_itl_s) or None,
            itl_s=itl_s,
            is_cut=error == CUT,
        )
        replies.append(reply)
    return replies


def _error(error: str, note: Note) -> str | None:
    """Return what went wrong: in the server's words, else in the last line of a traceback."""
    if error in (CUT, NOT_SENT) or not error.strip():
        return error or note.fault()
    return note.error or sentence(error.strip().splitlines()[-1])


def of_text(ttft_s: float, itl_s: list[float], is_chat: bool) -> tuple[float, list[float]]:
    """Return TTFT and gaps without a chat's first chunk, which names the role and has no text."""
    return (ttft_s + itl_s[0], itl_s[1:]) if is_chat and itl_s else (ttft_s, itl_s)


VLLM_BENCH = Generator(
    name="vllm-bench",
    environment=None,
    client="servetune.load.vllm_bench.client",
    key_variable="OPENAI_API_KEY",
    command=("vllm", "bench", "serve"),
    arguments=arguments,
    read=read,
)
