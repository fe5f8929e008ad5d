"""Random numbers for the parts of a dataset, each part independent of all others.

Only `random.Random(int).random()` and arithmetic on it are used: Python keeps that sequence
across versions (docs.python.org/3/library/random.html, Notes on Reproducibility), and Python's
float arithmetic is IEEE 754 on every machine.
"""

import hashlib
import json
from dataclasses import dataclass
from random import Random
from typing import Self

from servetune.study.base import Declared


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


def below(random: Random, end: int) -> int:
    """Draw a whole number in [0, end), each as likely."""
    return int(random.random() * end)


def _sha256(text: str) -> bytes:
    # A file's JSON may hold lone surrogates, which UTF-8 refuses.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
