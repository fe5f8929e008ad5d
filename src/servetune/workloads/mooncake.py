"""Traces in Mooncake's format: when requests came, how long they were, and what they shared.

Qin et al. 2025, Mooncake: Trading More Storage for Less Computation, FAST '25; the traces are in
github.com/kvcache-ai/Mooncake under FAST25-release.
"""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from servetune.errors import UserError
from servetune.load.rows import Row
from servetune.study.datasets import MooncakeDataset
from servetune.workloads.sources import check_enough, is_count, json_lines, read_source, wrong_line
from servetune.workloads.streams import Streams
from servetune.workloads.synthetic import random_tokens

_LINE = '{"timestamp": ms, "input_length": N, "output_length": N, "hash_ids": [...]}'


def mooncake_rows(spec: MooncakeDataset, path: Path, streams: Streams) -> Iterator[Row]:
    """Yield the prompts of a trace, each with `arrival_s` in seconds after the first.

    A hash id is always the same `block_tokens` random tokens, so prompts share the blocks that
    they shared in production. The last block is cut to the length of the input; tokens that no
    hash id stands for are shared with nobody.

    The file is JSONL, with timestamps in milliseconds that never go back.

    Raises:
        UserError: the first line that is wrong, or fewer lines than asked for.
    """
    text = read_source(path)
    streams = streams.within(text)
    first_ms = last_ms = None
    taken = 0
    for number, line in islice(json_lines(path, text, _LINE), spec.requests):
        if not _is_line(line):
            raise wrong_line(path, number, _LINE, line)
        now_ms = line["timestamp"]
        if last_ms is not None and now_ms < last_ms:
            expected = f"a timestamp of at least {last_ms}, that of the line before"
            raise wrong_line(path, number, expected, now_ms)
        first_ms, last_ms = now_ms if first_ms is None else first_ms, now_ms
        yield {
            "prompt": _prompt(spec, line, taken, streams),
            "output_tokens": line["output_length"],
            "arrival_s": (now_ms - first_ms) / 1000,
        }
        taken += 1
    if taken == 0:
        raise UserError(f"{path}: empty; expected {_LINE} per line")
    check_enough(path, taken, spec.requests, "lines")


def _is_line(line: object) -> bool:
    if not isinstance(line, dict):
        return False
    timestamp, hash_ids = line.get("timestamp"), line.get("hash_ids")
    return (
        (type(timestamp) is int or (type(timestamp) is float and math.isfinite(timestamp)))
        and is_count(line.get("input_length"))
        and is_count(line.get("output_length"))
        and isinstance(hash_ids, list)
        and all(type(id) in (int, str) for id in hash_ids)
    )


def _prompt(spec: MooncakeDataset, line: dict[str, Any], index: int, streams: Streams) -> list[int]:
    length = line["input_length"]
    prompt: list[int] = []
    for id in line["hash_ids"]:
        if len(prompt) >= length:
            break
        prompt += random_tokens(streams.random("block", id), spec.block_tokens, spec.vocabulary)
    missing = max(0, length - len(prompt))
    prompt += random_tokens(streams.random("own", index), missing, spec.vocabulary)
    return prompt[:length]
