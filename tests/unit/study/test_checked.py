"""Questions with answers to check: what is right, and which files are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.study.checked import expected, judge
from servetune.study.datasets import CheckedDataset
from servetune.study.opening import read_source
from servetune.study.sources import records_of

COLOURS = ["red", "blue", "green"]


def number(answer: float, **more: Any) -> dict[str, Any]:
    return {"kind": "number", "answer": answer, **more}


@pytest.mark.parametrize(
    ("check", "answer", "is_right"),
    [
        ({"kind": "exact", "answer": "Blue"}, " blue.\n", True),
        ({"kind": "exact", "answer": "Blue"}, '"**blue**"', True),
        ({"kind": "exact", "answer": "Blue"}, "It is blue.", False),
        ({"kind": "exact", "answer": ["grey", "gray"]}, "Gray", True),
        ({"kind": "exact", "answer": "a b"}, "a\n b", True),
        (number(37), "23 + 14 = 37.", True),
        (number(37), "37, as 23 + 14", False),
        (number(1234.5), "$1,234.50", True),
        (number(12), "1,2", False),
        (number(-4), "It is -4", True),
        (number(-4), "It is \N{MINUS SIGN}4", True),
        (number(2), "5-3=2", True),
        (number(3), "from 5-3", True),
        (number(0.1), "0.1", True),
        (number(2), "H2", False),
        (number(3.14, tolerance=0.01), "3.1416", True),
        (number(3.14), "3.1416", False),
        (number(7), "seven", False),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "B", True),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "B) blue", True),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "The answer is (B).", True),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "Answer: B", True),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "Blue.", True),
        ({"kind": "choice", "answer": "A", "choices": COLOURS}, "A banana is yellow", False),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "D", False),
        ({"kind": "choice", "answer": "B", "choices": COLOURS}, "I think that it is (B)", True),
        ({"kind": "regex", "answer": r"(?i)\bparis\b"}, "It is Paris.", True),
        ({"kind": "regex", "answer": r"(?i)\bparis\b"}, "Parisian", False),
        ({"kind": "regex", "answer": ".*"}, "  ", False),
        (number(0), "", False),
    ],
)
def test_an_answer_is_right_as_its_check_says(
    check: dict[str, Any], answer: str, is_right: bool
) -> None:
    assert judge(check, answer) is is_right


def test_an_expression_that_would_take_for_ever_takes_a_moment() -> None:
    assert not judge({"kind": "regex", "answer": "(a+)+$"}, "a" * 50_000 + "b")


def test_what_is_right_is_written_for_a_reader() -> None:
    assert expected({"kind": "choice", "answer": "B", "choices": COLOURS}) == "B) blue"
    assert expected({"kind": "exact", "answer": ["grey", "gray"]}) == "grey or gray"
    assert expected(number(37)) == "37"


def rows(tmp_path: Path, *lines: Any, **spec: Any) -> list[Any]:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(records_of(CheckedDataset(kind="checked", path=path, **spec), read_source(path)))


def test_choices_are_lettered_below_the_prompt_and_a_question_without_id_has_its_line(
    tmp_path: Path,
) -> None:
    asked = {"prompt": "Which?", "check": "choice", "answer": "B", "choices": COLOURS}
    (row,) = rows(tmp_path, asked, output_tokens=9)
    assert row["prompt"] == "Which?\nA) red\nB) blue\nC) green"
    assert (row["id"], row["output_tokens"]) == ("q1", 9)


FINE: dict[str, Any] = {"prompt": "1 + 1?", "check": "number", "answer": 2}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({**FINE, "check": "guess"}, "line 1: check: expected 'exact', 'number', 'choice' or"),
        ({**FINE, "answer": "2"}, "line 1: expected a number as the answer of check: number"),
        ({**FINE, "answr": 2}, "line 1: answr: unknown field"),
        ({"prompt": "1 + 1?", "answer": 2}, "line 1: check: missing"),
        ({**FINE, "check": "choice"}, "expected choices with check: choice"),
        (
            {**FINE, "check": "choice", "choices": COLOURS, "answer": "D"},
            "expected a letter from A to C as the answer",
        ),
        ({**FINE, "check": "regex", "answer": "(?=x)"}, "expected an expression of RE2"),
        ({**FINE, "check": "exact", "answer": " . "}, "expected a text, or a list of those"),
    ],
)
def test_a_wrong_question_is_refused_in_a_line(
    tmp_path: Path, line: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as caught:
        rows(tmp_path, line)
    assert said in str(caught.value)


def test_two_questions_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 2: id: expected an id that no other question has"):
        rows(tmp_path, {**FINE, "id": "one"}, {**FINE, "id": "one"})


def test_a_file_with_fewer_questions_than_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 1 questions, but requests is 2"):
        rows(tmp_path, FINE, requests=2)
