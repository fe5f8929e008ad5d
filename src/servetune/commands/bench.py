"""A load of `vllm bench serve` as a dataset and a workload of a study."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from servetune.commands.arguments import options_of
from servetune.engines.spelling import meant_by
from servetune.errors import UserError

_RECORDED = "servetune records every request and all percentiles"
_ANSWERED = "servetune asks its own server"

LEFT_OUT = {
    **dict.fromkeys(
        ("save_result", "save_detailed", "append_result", "result_dir", "result_filename"),
        _RECORDED,
    ),
    **dict.fromkeys(("percentile_metrics", "metric_percentiles", "label", "metadata"), _RECORDED),
    **dict.fromkeys(("host", "port", "base_url", "endpoint", "api_key", "header"), _ANSWERED),
    **dict.fromkeys(("served_model_name", "tokenizer", "trust_remote_code", "backend"), _ANSWERED),
    **dict.fromkeys(("disable_tqdm", "logprobs", "profile", "insecure"), "not of the load"),
    **dict.fromkeys(("ready_check_timeout_sec", "num_warmups"), "servetune warms up by itself"),
    "seed": "set seed in params.yaml",
    "tokenizer_mode": _ANSWERED,
}
"""Arguments that servetune has no use for, and why."""

_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
)

_DEFAULT = {"num_prompts": 1000, "random_input_len": 1024, "random_output_len": 128}
"""The command's own, where it is silent."""


@dataclass
class Bench:
    """A dataset and a workload, and what of the command is neither."""

    model: str | None
    url: str | None
    has_key: bool
    headers: list[str]
    dataset: dict[str, Any]
    workload: dict[str, Any]
    dropped: list[str] = field(default_factory=list)


def bench_of(words: list[str]) -> Bench:
    """Read the words after `vllm bench serve`; raises UserError for a load it cannot write."""
    options, _ = options_of(words, None)
    given = {}
    for option, value in options:
        name, read = meant_by(option, value)
        given[name] = read
    return bench_from(given)


def bench_from(given: Mapping[str, Any]) -> Bench:
    """Read a load by the names of its arguments, with underscores."""
    # An empty text is a flag, as in vLLM's own tests.
    given = {
        name.replace("-", "_"): True if value == "" else value
        for name, value in given.items()
        if value is not None
    }
    model, url = given.pop("model", None), _url(given)
    headers = _headers(given.get("header"))
    has_key = "api_key" in given or any(name.lower() == "authorization" for name in headers)
    headers = [name for name in headers if name.lower() != "authorization"]
    dropped = [f"--{_dashed(name)}: {LEFT_OUT[name]}" for name in given if name in LEFT_OUT]
    given = {name: value for name, value in given.items() if name not in LEFT_OUT}
    requests = _count(given.pop("num_prompts", _DEFAULT["num_prompts"]), "num_prompts")
    dataset = _dataset(given, requests)
    workload = _workload(given, requests)
    if given:
        dropped += [f"--{_dashed(name)}: not taken; the load differs by it" for name in given]
    named = str(model) if model else None
    return Bench(named, url, has_key, headers, dataset, workload, dropped)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _url(given: Mapping[str, Any]) -> str | None:
    """Return the address of a server elsewhere; None of one on this host."""
    url = given.get("base_url")
    if url is None and "host" in given:
        url = f"http://{given['host']}:{given.get('port', 8000)}"
    if url is None:
        return None
    parts = urlsplit(str(url))
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            "from: --base-url: has credentials or a query, which a study would hold; give the"
            " address alone, and the key by --header Authorization=…, which becomes a variable's"
            " name"
        )
    return str(url)


def _headers(given: Any) -> list[str]:
    """Return the names of headers, each given as NAME=VALUE; the values may be secrets."""
    words = given if isinstance(given, list) else [given]
    return [str(word).partition("=")[0].strip() for word in words if word is not None]


def _count(value: Any, name: str) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError):
        count = 0
    if count < 1:
        raise UserError(f"from: --{_dashed(name)}: expected a whole number from 1 on")
    return count


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number) or number < 0:
        raise UserError(f"from: --{_dashed(name)}: expected a number from 0 on")
    return number


def _dataset(given: dict[str, Any], requests: int) -> dict[str, Any]:
    name = given.pop("dataset_name", "sharegpt" if "dataset_path" in given else "random")
    path = given.pop("dataset_path", None)
    for common in ("input", "output"):
        if (length := given.pop(f"{common}_len", None)) is not None:
            given.setdefault(f"random_{common}_len", length)
    if name in ("random", "sharegpt", "custom"):
        if name == "random":
            return _random(given, requests)
        if path is None:
            raise UserError(f"from: --dataset-name {name}: expected --dataset-path with its file")
        if name == "custom":
            given.pop("custom_output_len", None)
            return {"kind": "file", "path": str(path)}
        dataset = {"kind": "sharegpt", "path": str(path), "requests": requests}
        if (length := given.pop("sharegpt_output_len", None)) is not None:
            dataset["output_tokens"] = _count(length, "sharegpt_output_len")
        return dataset
    raise UserError(
        f"from: --dataset-name {name}: expected random, sharegpt or custom; write its requests as a"
        " JSONL of prompt and output_tokens, and give --dataset-name custom --dataset-path FILE"
    )


def _random(given: dict[str, Any], requests: int) -> dict[str, Any]:
    lengths = {
        name: _count(
            given.pop(f"random_{name}_len", _DEFAULT[f"random_{name}_len"]), f"random_{name}_len"
        )
        for name in ("input", "output")
    }
    ratio = min(1.0, _number(given.pop("random_range_ratio", 0.0), "random_range_ratio"))
    prefix = int(min(1e9, _number(given.pop("random_prefix_len", 0), "random_prefix_len")))
    dataset: dict[str, Any] = {"kind": "random", "requests": requests}
    for name, length in lengths.items():
        low, high = max(1, math.floor(length * (1 - ratio))), math.ceil(length * (1 + ratio))
        dataset[f"{name}_tokens"] = length if low == high else {"min": low, "max": high}
    if prefix:
        dataset["shared_prefix"] = {"count": 1, "tokens": prefix}
    return dataset


def _workload(given: dict[str, Any], requests: int) -> dict[str, Any]:
    workload: dict[str, Any] = {"dataset": "load"}
    point: dict[str, Any] = {}
    if (clients := given.pop("max_concurrency", None)) is not None:
        point["concurrency"] = _count(clients, "max_concurrency")
    rate = _number(given.pop("request_rate", math.inf), "request_rate")
    if not math.isinf(rate) or not point:
        point["rate_rps"] = rate
    burstiness = given.pop("burstiness", None)
    if burstiness is not None and (shape := _number(burstiness, "burstiness")) != 1:
        workload |= {"arrivals": "gamma", "burstiness": shape}
    workload["load_points"] = [{**point, "requests": requests}]
    if (limits := given.pop("goodput", None)) is not None:
        workload["slo"] = _slo(limits)
    if sampling := {name: given.pop(name) for name in _SAMPLING if name in given}:
        workload["sampling"] = sampling
    # The command stops at the end of an answer, unless it is told to go on; random prompts have
    # none that means anything.
    if not given.pop("ignore_eos", False):
        workload["ignore_eos"] = False
    return workload


def _slo(limits: Any) -> dict[str, float]:
    # The command counts requests within the limits, and asks for no share of them.
    slo = {"goodput_ratio": 0.95}
    for word in limits if isinstance(limits, list) else [limits]:
        name, _, value = str(word).partition(":")
        latency = {"ttft": "ttft", "tpot": "tpot", "e2el": "e2e"}.get(name)
        if latency is None or not value.replace(".", "", 1).isdecimal():
            raise UserError(f"from: --goodput {word}: expected ttft, tpot or e2el, as ttft:200")
        slo[f"{latency}_ms"] = float(value)
    return slo
