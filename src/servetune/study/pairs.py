"""Pairs of questions, labelled by whether one answer serves both."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from servetune.study.base import Name
from servetune.study.datasets import PairsDataset
from servetune.study.lines import json_lines
from servetune.study.opening import Source

PAIR_EXPECTED = '{"id": ..., "category": ..., "a": text, "b": text, "same_answer": true or false}'

_Text = Annotated[str, Field(min_length=1, max_length=100_000)]


class _Pair(BaseModel, strict=True, extra="forbid"):
    id: Name
    category: Name
    a: _Text
    b: _Text
    same_answer: bool
    style: Any = None
    ambiguous: Any = None


_PAIR = TypeAdapter(_Pair)


def pair_lines(spec: PairsDataset, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the numbers and pairs of a file.

    Raises:
        UserError: the first record that is no pair, or has a field that is not known.
    """
    yield from json_lines(source, _PAIR, PAIR_EXPECTED)
