"""What a record holds of a cache of answers that stands before the server."""

from typing import Annotated

from pydantic import Field

from servetune.records.base import Record
from servetune.records.values import Count, Line

_Text = Annotated[str, Field(max_length=2000)]


class WrongHit(Record):
    """A question that got the answer to another one."""

    kind: Line
    asked: _Text
    answered: _Text
    similarity: float | None = None


class KindOfQuestion(Record):
    """The counted questions of one kind: how many a cache answered, and how many wrongly."""

    name: Line
    requests: Count
    hits: Count
    wrong: Count


class CachedAnswers(Record):
    """What a cache of answers did under a load, by its headers and the labels of the questions.

    `exact` hits were asked before in the same words, `semantic` ones in words that are alike.
    `bypassed` requests it would not keep. A hit is `wrong` if its answer was stored for another
    question that the labels do not call the same; `unknown` are hits whose stored question could
    not be told. `first_wrong` are some of the wrong ones, the most alike first.
    """

    requests: Count
    exact: Count
    semantic: Count
    misses: Count
    bypassed: Count
    wrong: Count
    unknown: Count
    hit_e2e_p50_ms: float | None = None
    hit_e2e_p99_ms: float | None = None
    miss_e2e_p50_ms: float | None = None
    miss_e2e_p99_ms: float | None = None
    hit_ttft_p50_ms: float | None = None
    miss_ttft_p50_ms: float | None = None
    kinds: Annotated[list[KindOfQuestion], Field(max_length=100)] = []
    first_wrong: Annotated[list[WrongHit], Field(max_length=20)] = []

    @property
    def hits(self) -> int:
        """The requests that the cache answered."""
        return self.exact + self.semantic
