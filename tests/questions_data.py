"""Made-up answers to questions, through the records and functions of real ones."""

from typing import Any

from servetune.plan.planned import Plan
from servetune.records.quality import Answered, QualityRecord
from servetune.study.quality import Quality, Questions
from tests.report_data import make_quickstart_plan

ASKED = "Question {}?"


def make_answers(first: str, second: str | None = None) -> list[Answered]:
    """Make an answer for each + (right) or -; the second round repeats the first by default."""
    return [
        Answered(
            question=f"q{number}",
            asked=ASKED.format(number),
            expected=str(number),
            right=[sign == "+" for sign in signs],
            answers=["right" if sign == "+" else "wrong" for sign in signs],
            digests=list(signs),
        )
        for number, signs in enumerate(zip(first, second or first, strict=True), start=1)
    ]


def make_record(variant: str, answers: list[Answered]) -> QualityRecord:
    """Make the record of a variant that was asked questions alone."""
    return QualityRecord(
        quality=f"{variant}-quality-x",
        study="quickstart",
        variant=variant,
        status="ok",
        session=f"{variant}-r1-x",
        launch=1,
        questions="facts-x",
        server_command=["vllm", "serve", variant],
        answers=answers,
    )


def make_questions_plan(max_accuracy_drop: float | None = 0.05, **asked: Any) -> Plan:
    """Return the quickstart's plan, with questions and no corpus."""
    quality = Quality(
        questions=Questions(dataset="facts"), max_accuracy_drop=max_accuracy_drop, **asked
    )
    return make_quickstart_plan().model_copy(update={"quality": quality})
