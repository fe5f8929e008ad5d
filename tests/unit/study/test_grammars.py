"""Whether an answer is what structured output asked for."""

from typing import Any

import pytest

from servetune.study.classes import RequestClass
from servetune.study.grammars import check_of

AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
BY_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"schema": AGE}}}


@pytest.mark.parametrize(
    ("extra_body", "answer", "is_valid"),
    [
        (BY_SCHEMA, '{"age": 3}', True),
        (BY_SCHEMA, '{"age": "three"}', False),
        (BY_SCHEMA, '{"age": 3', False),
        (BY_SCHEMA, "[" * 100_000, False),
        ({"structured_outputs": {"json": AGE}}, ' {"age": 3}\n', True),
        ({"structured_outputs": {"json": '{"type": "string"}'}}, '"text"', True),
        ({"response_format": {"type": "json_object"}}, "{}", True),
        ({"response_format": {"type": "json_object"}}, "3", False),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes", True),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "ye", False),
        ({"structured_outputs": {"regex": "[0-9]+"}}, "42", True),
        ({"structured_outputs": {"regex": "[0-9]+"}}, "42 apples", False),
    ],
)
def test_an_answer_is_valid_if_it_is_as_was_asked(
    extra_body: dict[str, Any], answer: str, is_valid: bool
) -> None:
    check = check_of(extra_body)
    assert check and check(answer) is is_valid
    assert RequestClass(extra_body=extra_body).has_grammar


def test_a_schema_fetches_nothing() -> None:
    check = check_of({"structured_outputs": {"json": {"$ref": "http://127.0.0.1:9/schema"}}})
    assert check and not check("{}")


@pytest.mark.parametrize("extra_body", [{}, {"response_format": {"type": "text"}}])
def test_text_is_held_to_nothing(extra_body: dict[str, Any]) -> None:
    assert check_of(extra_body) is None
    assert not RequestClass(extra_body=extra_body).has_grammar


def test_a_grammar_is_not_read() -> None:
    extra_body = {"structured_outputs": {"grammar": 'root ::= "a"'}}
    assert check_of(extra_body) is None and RequestClass(extra_body=extra_body).has_grammar


@pytest.mark.parametrize(
    "outputs", [{"json": {"type": 3}}, {"regex": "("}, {"choice": "yes"}, {"json": "{"}]
)
def test_what_cannot_be_checked_is_refused(outputs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"JSON|json|regex|choice|Expecting"):
        check_of({"structured_outputs": outputs})
