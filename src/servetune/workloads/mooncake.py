"""Traces in Mooncake's format: when requests came, how long they were, and what they shared.

Qin et al. 2025, Mooncake: Trading More Storage for Less Computation, FAST '25; the traces are in
github.com/kvcache-ai/Mooncake under FAST25-release.
"""

from collections.abc import Iterator
from typing import Any

from servetune.load.rows import Row
from servetune.study.datasets import MooncakeDataset
from servetune.study.lines import none_of, take
from servetune.study.sources import read_source
from servetune.study.traces import PER_SECOND, TRACE_EXPECTED, trace_lines
from servetune.workloads.draws import Streams
from servetune.workloads.synthetic import random_tokens


def mooncake_rows(spec: MooncakeDataset, streams: Streams) -> Iterator[Row]:
    """Yield the prompts of a trace, each with `arrival_s` in seconds after the first.

    A hash id is always the same `block_tokens` random tokens, so prompts share the blocks that
    they shared in production. The last block is cut to the length of the input; tokens that no
    hash id stands for are shared with nobody.

    The file is JSONL, with timestamps that never go back.

    Raises:
        UserError: the first line that is wrong, or fewer lines than asked for.
    """
    text = read_source(spec.path)
    streams = streams.within(text)
    lines = (line for _, line in trace_lines(spec, text))
    first = None
    wanted = take(spec.path, lines, spec.requests, none_of(TRACE_EXPECTED), "lines")
    for index, line in enumerate(wanted):
        first = line["timestamp"] if first is None else first
        yield {
            "prompt": _prompt(spec, line, index, streams),
            "output_tokens": line["output_length"],
            "arrival_s": (line["timestamp"] - first) / PER_SECOND[spec.time_unit],
        }


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
