"""Lengths drawn as declared: of prompts, of answers, and the number of turns."""

import math
from decimal import Context, Decimal
from random import Random

from servetune.study.datasets import Around, Lengths, Normal, Range
from servetune.workloads.streams import below

_DECIMAL = Context(prec=28)


def draw_length(random: Random, lengths: Lengths) -> int:
    """Draw one length, at least 1; a fixed one draws nothing.

    The limits of `{mean, range_ratio}` are computed as in `vllm bench` (vllm/benchmarks/datasets,
    `get_sampling_params`), with the same rounding of floats: 100 and 0.1 give 90 to 111.
    """
    if isinstance(lengths, Normal):
        while True:
            length = round(lengths.mean + lengths.std * standard_normal(random))
            if lengths.min <= length <= lengths.max:
                return length
    if isinstance(lengths, Range):
        return _between(random, lengths.min, lengths.max)
    if isinstance(lengths, Around):
        low = math.floor(lengths.mean * (1 - lengths.range_ratio))
        high = math.ceil(lengths.mean * (1 + lengths.range_ratio))
        return _between(random, max(low, 1), high)
    return lengths


def standard_normal(random: Random) -> float:
    """Draw from the standard normal distribution, the same bits on every machine.

    The polar form of the Box-Muller transform (Marsaglia and Bray 1964, A Convenient Method for
    Generating Normal Variables), of whose pair one is used.
    """
    while True:
        x, y = 2 * random.random() - 1, 2 * random.random() - 1
        square = x * x + y * y
        if 0 < square < 1:
            break
    # The C library's logarithm may differ in its last bit; that of decimal is correctly rounded.
    logarithm = float(Decimal(square).ln(_DECIMAL))
    return x * math.sqrt(-2 * logarithm / square)


def _between(random: Random, low: int, high: int) -> int:
    return low + below(random, high - low + 1)
