"""Traces of lengths and times: Mooncake's, with what prompts shared, and BurstGPT's.

Qin et al. 2025, Mooncake: Trading More Storage for Less Computation, FAST '25; the traces are in
github.com/kvcache-ai/Mooncake under FAST25-release. Wang et al. 2024, BurstGPT: A Real-world
Workload Dataset to Optimize LLM Serving Systems; github.com/HPMLL/BurstGPT.
"""

from collections.abc import Iterator
from typing import Any, cast

from servetune.study.datasets import MooncakeDataset, TraceDataset
from servetune.study.opening import read_source
from servetune.study.rows import Row, Turn
from servetune.study.sources import records_of
from servetune.study.traces import per_second
from servetune.workloads.draws import Streams
from servetune.workloads.synthetic import random_tokens


def trace_rows(spec: TraceDataset, streams: Streams) -> Iterator[Row]:
    """Yield the prompts of a trace, each with `arrival_s` in seconds after the first.

    A hash id is always the same `block_tokens` random tokens, so prompts share the blocks that
    they shared in production. The last block is cut to the length of the input; tokens that no
    hash id stands for are shared with nobody.

    A session is a conversation where its first line is. A later turn of it has the whole prompt:
    that of the turn before, random tokens for the answer, and those that the line adds.

    Raises:
        UserError: the first line that is wrong, or fewer lines than asked for.
    """
    source = read_source(spec.path)
    streams = streams.within(source.text)
    conversations: dict[str | int, list[tuple[int, dict[str, Any]]]] = {}
    for index, line in enumerate(records_of(spec, source)):
        conversations.setdefault(line.get("session_id", index), []).append((index, line))
    first = None
    for session, lines in conversations.items():
        turns = list(_turns(spec, lines, streams))
        begins = lines[0][1]["timestamp"]
        first = begins if first is None else first
        arrival_s = (begins - first) / per_second(spec)
        if isinstance(session, int):
            yield cast(Row, {**turns[0], "arrival_s": arrival_s})
        else:
            yield {"turns": turns, "arrival_s": arrival_s}


def _turns(
    spec: TraceDataset, lines: list[tuple[int, dict[str, Any]]], streams: Streams
) -> Iterator[Turn]:
    history: list[int] = []
    for index, line in lines:
        prompt, length = history + _prompt(spec, line, index, streams), line["output_length"]
        turn: Turn = {"prompt": prompt, "output_tokens": length}
        if history:
            turn["delay_s"] = line.get("delay", 0) / per_second(spec)
        yield turn
        answer = streams.random("answer", index)
        history = [*prompt, *random_tokens(answer, length, spec.vocabulary)]


def _prompt(spec: TraceDataset, line: dict[str, Any], index: int, streams: Streams) -> list[int]:
    length = line["input_length"]
    prompt: list[int] = []
    for id in line.get("hash_ids", ()):
        assert isinstance(spec, MooncakeDataset)
        if len(prompt) >= length:
            break
        prompt += random_tokens(streams.random("block", id), spec.block_tokens, spec.vocabulary)
    missing = max(0, length - len(prompt))
    prompt += random_tokens(streams.random("own", index), missing, spec.vocabulary)
    return prompt[:length]
