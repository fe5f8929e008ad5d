"""Random draws for the parts of a dataset, each part independent of all others.

Only `random.Random(int).random()` and arithmetic on it are used: Python keeps that sequence
across versions (docs.python.org/3/library/random.html, Notes on Reproducibility), and Python's
float arithmetic is IEEE 754 on every machine.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from decimal import Context, Decimal
from random import Random
from typing import Self

from servetune.study.base import Declared
from servetune.study.datasets import Around, Lengths, Normal, longest

_DECIMAL = Context(prec=28)
"""Python's own precision, whatever the process has set: requests must not depend on it."""


@dataclass(frozen=True)
class Streams:
    """Seeds and generators that follow from a key and the name of a part."""

    key: str

    @classmethod
    def of(cls, spec: Declared, seed: int) -> Self:
        """Return the streams of a dataset, so that another declaration or seed has others.

        Where its file lies does not matter, and neither does what is left at its default.
        """
        declared = spec.model_dump(mode="json", exclude={"path"}, exclude_defaults=True)
        return cls(_sha256(json.dumps([declared, seed], sort_keys=True)).hex())

    def within(self, text: str) -> Self:
        """Return other streams for each text, for datasets that are made from a file."""
        return type(self)(_sha256(self.key + text).hex())

    def seed(self, *part: str | int) -> int:
        """Return the seed of a part, in [0, 2**64)."""
        return int.from_bytes(_sha256(json.dumps([self.key, *part]))[:8], "big")

    def random(self, *part: str | int) -> Random:
        """Return a new generator for a part; draw with its `random` method alone."""
        return Random(self.seed(*part))


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def below(random: Random, end: int) -> int:
    """Draw a whole number in [0, end), each as likely."""
    return int(random.random() * end)


def draw_length(random: Random, lengths: Lengths) -> int:
    """Draw one length, at least 1; a fixed one draws nothing.

    The limits of `{mean, range_ratio}` are computed as in `vllm bench` (vllm/benchmarks/datasets,
    `get_sampling_params`), with the same rounding of floats: 100 and 0.1 give 90 to 111.
    """
    if isinstance(lengths, int):
        return lengths
    if isinstance(lengths, Normal):
        while True:
            length = round(lengths.mean + lengths.std * standard_normal(random))
            if lengths.min <= length <= lengths.max:
                return length
    if isinstance(lengths, Around):
        low = max(math.floor(lengths.mean * (1 - lengths.range_ratio)), 1)
        high = longest(lengths)
    else:
        low, high = lengths.min, lengths.max
    return low + below(random, high - low + 1)


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
