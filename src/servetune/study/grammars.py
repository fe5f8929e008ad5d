"""What a class of requests holds its answers to, and whether an answer is so."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[str], bool]


def check_of(extra_body: Mapping[str, Any]) -> Check | None:
    """Return what tells whether an answer is as a request asks; None where nothing can.

    It is a JSON schema, JSON of any form, a regular expression or a choice: a grammar is not read.

    Raises:
        ValueError: it is none of these; the message says which.
    """
    asked, outputs = (_map(extra_body, key) for key in ("response_format", "structured_outputs"))
    schema = _map(asked, "json_schema").get("schema") or outputs.get("json")
    if asked.get("type") == "json_object" or outputs.get("json_object"):
        schema = {"type": "object"}
    if schema is not None:
        return _by_schema(json.loads(schema) if isinstance(schema, str) else schema)
    choices, pattern = outputs.get("choice"), outputs.get("regex")
    if choices is not None and not isinstance(choices, list):
        raise ValueError("choice: expected a list of texts")
    if choices:
        return choices.__contains__
    return _by_expression(str(pattern)) if pattern else None


def _map(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{key}: expected a map")
    return value


def _by_expression(pattern: str) -> Check:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"regex: no regular expression: {error}") from None
    return lambda answer: expression.fullmatch(answer) is not None


def _by_schema(schema: Any) -> Check:
    # Only a study with a schema waits for them.
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"no JSON schema: {error.message}") from None
    # Without the registry it would fetch what the schema refers to.
    validator = kind(schema, registry=Registry())

    def is_valid(answer: str) -> bool:
        try:
            return bool(validator.is_valid(json.loads(answer)))
        except (ValueError, RecursionError, Unresolvable):
            return False

    return is_valid
