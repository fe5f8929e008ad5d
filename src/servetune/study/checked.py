"""Questions whose answers a program can check: how they are written, and how they are judged.

- `exact`: the whole answer, whatever its case, its white space and its last full stop
- `number`: the last number in the answer, to a tolerance, as usual since GSM8K (Cobbe et al. 2021,
  arXiv:2110.14168)
- `choice`: the letter that the answer says, or the text of that choice alone
- `regex`: an expression of RE2, found anywhere in the answer
"""

import re
import string
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, TypeAdapter, model_validator

from servetune.study.base import Name
from servetune.study.datasets import CheckedDataset
from servetune.study.lines import Place, json_lines
from servetune.study.opening import Source

CHECKED_EXPECTED = '{"prompt": text, "answer": ..., "check": exact | number | choice | regex}'

Check = Literal["exact", "number", "choice", "regex"]

# A hyphen after a digit is no minus, and a digit in a word no number.
_NUMBER = re.compile(r"(?<!\w)[-\N{MINUS SIGN}]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_WRAPPING = (
    " \t\n\"'`*_\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
    "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
)
_Text = Annotated[str, Field(min_length=1, max_length=100_000)]


class _Question(BaseModel, strict=True, extra="forbid"):
    id: Name | None = None
    prompt: _Text
    check: Check
    answer: str | int | float | list[str]
    choices: list[_Text] | None = Field(None, min_length=2, max_length=26)
    tolerance: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        is_choice, is_number = self.check == "choice", self.check == "number"
        if is_choice != (self.choices is not None):
            raise ValueError("expected choices with check: choice, and with no other")
        if self.tolerance is not None and not is_number:
            raise ValueError("expected a tolerance with check: number alone")
        if is_number:
            if isinstance(self.answer, str | list) or not abs(self.answer) < 1e15:
                raise ValueError("expected a number as the answer of check: number")
        elif self.check == "exact":
            texts = self.answer if isinstance(self.answer, list) else [self.answer]
            if not texts or not all(isinstance(each, str) and _plain(each) for each in texts):
                raise ValueError("expected a text, or a list of those, as the answer of exact")
        elif not isinstance(self.answer, str):
            raise ValueError(f"expected a text as the answer of check: {self.check}")
        elif self.choices and self.answer not in _letters(self.choices):
            last = _letters(self.choices)[-1]
            raise ValueError(f"expected a letter from A to {last} as the answer")
        elif self.check == "regex":
            _found(self.answer, "")
        return self


_QUESTION = TypeAdapter(_Question)


def checked_lines(spec: CheckedDataset, source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the numbers of questions and their rows; one without an id has that of its place.

    Raises:
        UserError: the first record that is no question, or has the id of another.
    """
    taken: set[str] = set()
    for number, question in json_lines(source, _QUESTION, CHECKED_EXPECTED):
        id = question.get("id") or f"q{number}"
        if id in taken:
            raise Place(source, number).wrong("an id that no other question has", id, "id")
        taken.add(id)
        prompt, choices = question["prompt"], question.get("choices")
        if choices:
            lettered = zip(_letters(choices), choices, strict=True)
            prompt += "".join(f"\n{letter}) {choice}" for letter, choice in lettered)
        check = {"kind": question["check"]}
        for key in ("answer", "choices", "tolerance"):
            check |= {key: question[key]} if key in question else {}
        length = {"output_tokens": spec.output_tokens}
        yield number, {"prompt": prompt, **length, "id": id, "check": check}


def judge(check: dict[str, Any], answer: str) -> bool:
    """Tell whether an answer is right by a row's `check`; an empty one never is."""
    kind, right = check["kind"], check["answer"]
    if not answer.strip():
        return False
    if kind == "number":
        value = _last_number(answer)
        tolerance = Decimal(str(check.get("tolerance") or 0))
        return value is not None and abs(value - Decimal(str(right))) <= tolerance
    if kind == "choice":
        return _chosen(answer, check["choices"]) == str(right)
    if kind == "regex":
        return _found(right, answer)
    texts = right if isinstance(right, list) else [right]
    return _plain(answer) in {_plain(each) for each in texts}


def expected(check: dict[str, Any]) -> str:
    """Write what a right answer is, for a reader."""
    right = check["answer"]
    if check["kind"] == "choice":
        return f"{right}) {check['choices'][_letters(check['choices']).index(right)]}"
    return " or ".join(right) if isinstance(right, list) else str(right)


def _plain(text: str) -> str:
    return " ".join(text.strip(_WRAPPING).removesuffix(".").strip(_WRAPPING).casefold().split())


def _last_number(answer: str) -> Decimal | None:
    found = _NUMBER.findall(answer)
    try:
        last = found[-1].replace(",", "").replace("\N{MINUS SIGN}", "-") if found else None
        return Decimal(last) if last else None
    except InvalidOperation:
        return None


def _letters(choices: list[str]) -> str:
    return string.ascii_uppercase[: len(choices)]


def _chosen(answer: str, choices: list[str]) -> str | None:
    """Return the letter that an answer says; None where it says none.

    The last that follows "answer", the one it begins with, the last in parentheses, or the text of
    a choice. A bare "A" in a sentence is an article.
    """
    letters = f"[{_letters(choices)}]"
    text = answer.strip(_WRAPPING)
    for pattern in (
        rf"(?i:answer)\W+(?:(?i:is|would be)\W+)?({letters})(?![\w'])",
        rf"^\(?({letters})(?:[).:,\n]|$)",
        rf"\(({letters})\)",
    ):
        if found := re.findall(pattern, text):
            return str(found[-1])
    plain = [_plain(each) for each in choices]
    return _letters(choices)[plain.index(_plain(text))] if _plain(text) in plain else None


def _found(pattern: str, answer: str) -> bool:
    """Find an expression; RE2's take a time that grows with the text alone, whatever they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return bool(pc.match_substring_regex(pa.array([answer]), pattern)[0].as_py())
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        raise ValueError(f"expected an expression of RE2 as the answer of regex: {why}") from None
