"""Reading YAML and validating it, with errors that name the place and the way out."""

import json
import re
import warnings
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from servetune.errors import UserError, nearest


def read_yaml(path: Path, file: Path) -> dict[str, Any]:
    """Read a mapping from YAML; errors call it `file`.

    Raises:
        UserError: no such file, bad YAML, a key given twice, or not a mapping.
    """
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    if not isinstance(content, dict):
        raise UserError(f"{file}: expected keys with values, as in `study: quickstart`")
    return content


def parse_yaml(text: str, name: str) -> Any:
    """Parse YAML 1.1, as Snakemake and DVC do of params.yaml; errors call it `name`.

    Raises:
        UserError: bad YAML, or a key given twice.
    """
    # Not on the host of a bundle, which reads no YAML.
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, MarkedYAMLError

    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    try:
        with warnings.catch_warnings():
            # 1e-3 is the number that it looks like.
            warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)
            return reader.load(text)
    except DuplicateKeyError as error:
        above, here = error.context_mark, error.problem_mark
        lines = text.splitlines()
        key = lines[here.line][here.column :].partition(":")[0].strip("'\" ")
        between = range(above.line, here.line)
        first = next(
            (i for i in between if re.search(rf"{re.escape(key)}['\"]?\s*:", lines[i])), above.line
        )
        raise UserError(
            f"{name}: {key}: given twice, in lines {first + 1} and {here.line + 1};"
            " rename or remove one"
        ) from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise UserError(f"{name}: line {line}: {error.problem}") from None


_Model = TypeVar("_Model", bound=BaseModel)


def validate(model: type[_Model], content: dict[str, Any], file: Path) -> _Model:
    """Validate content read from `file`.

    Raises:
        UserError: the first thing that is wrong, with file, key path and what was expected.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # A misspelt key also reads as a missing one: name the misspelling.
        problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UserError(f"{file}: {_explain(problems[0], content, model)}{more}") from None


def _explain(problem: ErrorDetails, content: dict[str, Any], model: type[BaseModel]) -> str:
    """One line for a pydantic error: the key path, and what was expected there."""
    kind, context = problem["type"], problem.get("ctx", {})
    path = _key_path(problem["loc"], content, kind in ("extra_forbidden", "missing"))
    where = ".".join(path) or "(top level)"
    if kind == "extra_forbidden":
        known = _keys_at(problem["loc"][:-1], model)
        hint = nearest(path[-1], known) or f"; expected one of {', '.join(known)}"
        return f"{where}: unknown key{hint}"
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
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", "")
        choices = expected.replace(" or ", ", ").split(", ")
        return f"{where}: {given}: expected {expected}{nearest(str(problem['input']), choices)}"
    return f"{where}: {given[:80]}: {message}"


def _key_path(loc: tuple[int | str, ...], content: Any, is_about_key: bool) -> list[str]:
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
