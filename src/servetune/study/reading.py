"""Validating what was read, with errors that name the place and the way out."""

import json
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from servetune.errors import UserError, nearest
from servetune.study.base import NAME, VARIABLE

_Model = TypeVar("_Model", bound=BaseModel)

_ELSEWHERE = {
    "max_concurrency": "concurrency",
    "num_prompts": "requests",
    "qps": "rate_rps",
    "rate": "rate_rps",
    "request_rate": "rate_rps",
}
"""What other tools call keys of ours."""

_UNTOLD = {"url", "key_env", "headers_env", "metrics", "extra_body", "environment_from"}
"""Keys in whose values a credential may stand by mistake: no message repeats them."""

_IMAGE = "; no images are run here: write python: PATH, or vllm: VERSION, of one that is installed"


def validate(model: type[_Model], content: dict[str, Any], file: Path) -> _Model:
    """Validate content read from `file`.

    Raises:
        UserError: the first thing that is wrong, with file, key path and what was expected.
    """
    try:
        declared = model.model_validate(content)
    except ValidationError as error:
        # A misspelt key also reads as a missing one: name the misspelling.
        problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        # A place may be wrong in several ways, one for each type that it could have.
        places = {tuple(key_path(each["loc"], content, True)) for each in problems}
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        raise UserError(f"{file}: {_explain(problems[0], content, model)}{more}") from None
    if path := _boolean_for_number(content, declared):
        raise UserError(f"{file}: {'.'.join(path)}: expected a number, not true or false")
    return declared


def _boolean_for_number(given: Any, taken: Any) -> list[str] | None:
    """Find where true or false was taken for the number 1 or 0; returns the key path."""
    if isinstance(given, dict):
        of = taken.get if isinstance(taken, dict) else partial(getattr, taken)
        pairs = [(str(key), value, of(key, None)) for key, value in given.items()]
    elif isinstance(given, list) and isinstance(taken, list):
        pairs = [(str(i), *both) for i, both in enumerate(zip(given, taken, strict=True))]
    else:
        return [] if isinstance(given, bool) and type(taken) in (int, float) else None
    found = ((key, _boolean_for_number(value, other)) for key, value, other in pairs)
    return next(([key, *path] for key, path in found if path is not None), None)


def _explain(problem: ErrorDetails, content: dict[str, Any], model: type[BaseModel]) -> str:
    """One line for a pydantic error: the key path, and what was expected there."""
    kind, context = problem["type"], problem.get("ctx", {})
    path = key_path(problem["loc"], content, kind in ("extra_forbidden", "missing"))
    where = ".".join(path) or "(top level)"
    if kind == "extra_forbidden":
        known = _keys_at(problem["loc"][:-1], model)
        return f"{where}: unknown key{_hint(path[-1], known)}"
    if kind.startswith("union_tag"):
        where += f".{str(context['discriminator']).strip(chr(39))}"
    if kind in ("missing", "union_tag_not_found"):
        return f"{where}: missing; this key is required"
    if kind == "union_tag_invalid":
        expected = str(context["expected_tags"]).replace("'", "")
        close = nearest(str(context["tag"]), expected.split(", "))
        return f"{where}: {context['tag']}: expected one of {expected}{close}"
    given = json.dumps(problem["input"], default=str)
    message = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    message = message.replace("input should be", "expected").split(", unable to parse")[0]
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", "")
        choices = expected.replace(" or ", ", ").split(", ")
        return f"{where}: {given}: expected {expected}{nearest(str(problem['input']), choices)}"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        known = _keys_at(problem["loc"], model)
        message = f"expected keys with values{f', such as {known[0]}' if known else ''}"
    if kind == "string_type" and isinstance(problem["input"], int | float):
        message = f'expected text; write it in quotes: "{given}"'
    if kind == "string_pattern_mismatch" and context["pattern"] == NAME:
        message = "expected a name of letters and digits, with . _ - inside"
    if kind == "string_pattern_mismatch" and context["pattern"] == VARIABLE:
        message = "expected the name of a variable of your shell, which holds the value"
    if kind == "too_short":
        message = f"expected {context['min_length']} or more"
    # Of a whole mapping the place is enough.
    is_mapping = isinstance(problem["input"], dict) and problem["input"]
    shown = "" if is_mapping or not _UNTOLD.isdisjoint(path) else f"{given[:80]}: "
    return f"{where}: {shown}{message}"


def _hint(key: str, known: list[str]) -> str:
    """Return what to write in place of a key that is not known."""
    if (ours := _ELSEWHERE.get(key)) in known:
        return f"; write {ours}"
    if key == "image" and "python" in known:
        return _IMAGE
    return nearest(key, known) or f"; expected one of {', '.join(known)}"


def key_path(loc: tuple[int | str, ...], content: Any, is_about_key: bool) -> list[str]:
    """Keep the parts of a pydantic location that are keys of the content, not union tags.

    The last part may be a key that the content lacks where the problem is about a key.
    """
    path: list[str] = []
    here = content
    for index, part in enumerate(loc):
        is_index = isinstance(here, list) and isinstance(part, int)
        if is_index or (isinstance(here, dict) and part in here):
            here = here[part]
            path.append(str(part))
        elif is_about_key and index == len(loc) - 1 and isinstance(here, dict):
            path.append(str(part))
    return path


def _keys_at(loc: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """List the keys that are valid at a location, from the JSON schema of the model."""
    schema = model.model_json_schema()

    def options(node: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what a reference or a union stands for."""
        if "$ref" in node:
            return options(schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
        union = [*node.get("anyOf", []), *node.get("oneOf", [])]
        return [each for option in union for each in options(option)] or [node]

    nodes = [schema]
    for part in loc:
        # A part may be the tag of an option and no key.
        tagged = [node for node in nodes if part in _tags(node)]
        inner = [child for node in nodes if (child := _child(node, part))]
        nodes = [option for node in tagged or inner or nodes for option in options(node)]
    return next((list(node["properties"]) for node in nodes if "properties" in node), [])


def _child(node: dict[str, Any], part: int | str) -> dict[str, Any] | None:
    """Return the schema of a key's or an index's value; None if the node has no such part."""
    named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
    return child or (named[0] if isinstance(named[0], dict) else None)


def _tags(node: dict[str, Any]) -> list[Any]:
    return [value.get("const") for value in node.get("properties", {}).values()]
