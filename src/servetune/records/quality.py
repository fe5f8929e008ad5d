"""The record of one variant's quality: `results/<study>/quality/<id>.json`, small and in Git.

It keeps what the analysis needs of each document, so that bounds, intervals and another baseline
are applied to it without asking a server again.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from servetune.files import read_model
from servetune.records.base import Record
from servetune.records.values import Argv, Line, Log, Moment, Number
from servetune.study.base import Id

SCHEMA_VERSION: Literal[1] = 1


ROUNDS = 2
"""How often each question is asked: what differs between two is a server's own noise."""


class Document(Record):
    """What a server said of one document.

    `tokens` counts the scored ones, all but the first; `logprob` is the sum of their natural log
    probabilities, `top1` the most likely token at each of their positions given the document's own
    tokens before it. `greedy` is the continuation under greedy decoding. `prompt_digest`
    identifies the document's tokens.
    """

    signed: ClassVar[frozenset[str]] = frozenset({"logprob"})
    prompt_digest: Line
    tokens: int
    logprob: float
    top1: list[int]
    greedy: list[int]


_Each = Field(min_length=ROUNDS, max_length=ROUNDS)


class Answered(Record):
    """What a server answered to one question, each time that it was asked.

    `question` is its id; `asked` and `answers` are shortened, and `digests`
    identify the whole answers. `cut` counts the answers that ended at the longest length.
    """

    question: Line
    asked: str
    expected: str
    right: Annotated[list[bool], _Each]
    answers: Annotated[list[str], _Each]
    digests: Annotated[list[Line], _Each]
    cut: Number = 0


class TaskMetric(Record):
    """One metric of an lm-evaluation-harness task, with the standard error that it tells."""

    signed: ClassVar[frozenset[str]] = frozenset({"value"})
    task: Line
    metric: Line
    value: float
    standard_error: float | None = None


class QualityRecord(Record):
    """One variant on one corpus, on questions, or on both.

    `failed` has no documents and no answers, and the reason in plain words.

    `tasks_failed` says why lm-evaluation-harness has no result; the documents hold nevertheless.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    quality: Id
    study: Id
    variant: Id
    status: Literal["ok", "failed"]
    reason: str | None = None
    log_tail: Log = []
    session: Id
    launch: Number
    corpus: Id | None = None
    questions: Id | None = None
    server_command: Argv
    started_at: Moment | None = None
    ended_at: Moment | None = None
    documents: list[Document] = []
    answers: list[Answered] = []
    tasks: list[TaskMetric] = []
    tasks_failed: str | None = None


def read_quality(path: Path) -> QualityRecord:
    """Read one quality record, as `read_measurement` does."""
    return read_model(path, QualityRecord)
