"""YAML that a user wrote: plain values alone, and no more of them than people write."""

import json
import re
import warnings
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from servetune.errors import UserError
from servetune.files import read_given

LARGEST_YAML = 128_000
"""Bytes of a params.yaml or a study: fifty times what those of this project have."""

_DEEPEST, _MOST_VALUES, _LONGEST_NUMBER = 32, 20_000, 100
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def read_yaml(path: Path, file: Path) -> dict[str, Any]:
    """Read a mapping from YAML; errors call it `file`.

    Raises:
        UserError: no such file, bad YAML, a key given twice, or not a mapping.
    """
    content = parse_yaml(read_given(path, str(file), LARGEST_YAML), str(file))
    if not isinstance(content, dict):
        raise UserError(f"{file}: expected keys with values, as in `study: quickstart`")
    return content


def parse_yaml(text: str, name: str) -> Any:
    """Parse YAML 1.1 as Snakemake and DVC do of params.yaml; errors call it `name`.

    Taken are mappings with text for keys, lists, text, numbers, true, false and null.

    Raises:
        UserError: bad YAML, a key given twice, another kind of value, or too much of it.
    """
    return deepcopy(_parsed(text, name))


# A process plans the same study several times, and reading it takes most of that.
@lru_cache(maxsize=8)
def _parsed(text: str, name: str) -> Any:
    # Not on the host of a bundle, which reads no YAML.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, MarkedYAMLError

    if unwanted := _NO_TEXT.search(text):
        line = text.count("\n", 0, unwanted.start()) + 1
        raise UserError(f"{name}: line {line}: {_unwanted(unwanted[0])}")
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    try:
        with warnings.catch_warnings():
            # 1e-3 is the number that it looks like.
            warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)
            _check_events(reader.parse(text), reader.resolver, name)
            return reader.load(text)
    except UserError:
        raise
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise UserError(f"{name}: line {line}: {error.problem}") from None
    except Exception as error:
        # What is no YAML at all makes the parser raise what it likes.
        raise UserError(f"{name}: cannot be read as YAML: {error}") from None


@dataclass
class _Open:
    """A mapping or list that is being read: what stood in it so far, by the lines of its keys."""

    anchor: str | None
    is_mapping: bool
    values: int = 0
    children: int = 0
    keys: dict[str, int] = field(default_factory=dict)

    @property
    def is_at_key(self) -> bool:
        return self.is_mapping and self.children % 2 == 0


def _check_events(events: Iterable[Any], resolver: Any, name: str) -> None:
    """Check a document while it is read, before anything is made of it.

    Raises:
        UserError: it is too deep or too large once its aliases are written out, a key is given
            twice or is no text, or a value is of another kind than `parse_yaml` takes.
    """
    from ruamel.yaml import events as yaml_events

    stack = [_Open(None, False)]
    anchored: dict[str, int] = {}
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 0
        values = 1
        if isinstance(event, yaml_events.CollectionEndEvent):
            ended = stack.pop()
            if ended.anchor:
                anchored[ended.anchor] = ended.values
            continue
        if isinstance(event, yaml_events.AliasEvent):
            if event.anchor not in anchored:
                raise UserError(f"{name}: line {line}: *{event.anchor}: no such anchor before it")
            values = anchored[event.anchor]
        elif not isinstance(event, yaml_events.NodeEvent):
            continue
        if is_scalar := isinstance(event, yaml_events.ScalarEvent):
            if event.anchor:
                anchored[event.anchor] = 1
            if problem := _scalar_problem(event, resolver, stack[-1].is_at_key):
                raise UserError(f"{name}: line {line}: {problem}")
        if stack[-1].is_at_key:
            if not is_scalar:
                raise UserError(f"{name}: line {line}: a key is text; quote what has [ or {{")
            first = stack[-1].keys.setdefault(event.value, line)
            if len(stack[-1].keys) * 2 != stack[-1].children + 2:
                raise UserError(
                    f"{name}: {event.value}: given twice, in lines {first} and {line};"
                    " rename or remove one"
                )
        stack[-1].children += 1
        for collection in stack:
            collection.values += values
        if stack[0].values > _MOST_VALUES:
            raise UserError(
                f"{name}: line {line}: more than {_MOST_VALUES} values, aliases written out;"
                " a study is read by people"
            )
        if isinstance(event, yaml_events.CollectionStartEvent):
            if problem := _tag_problem(event.tag, "map", "seq"):
                raise UserError(f"{name}: line {line}: {problem}")
            stack.append(_Open(event.anchor, isinstance(event, yaml_events.MappingStartEvent), 1))
            if len(stack) > _DEEPEST:
                raise UserError(f"{name}: line {line}: more than {_DEEPEST} levels deep")


def _scalar_problem(event: Any, resolver: Any, is_key: bool) -> str | None:
    from ruamel.yaml.nodes import ScalarNode

    value: str = event.value
    shown = value if len(value) <= 40 else f"{value[:40]}..."
    if unwanted := _NO_TEXT.search(value):
        return _unwanted(unwanted[0])
    if event.tag:
        return _tag_problem(event.tag, "str")
    kind = str(resolver.resolve(ScalarNode, value, event.implicit)).rpartition(":")[2]
    if kind == "timestamp":
        return f"{shown}: a date; write it in quotes"
    if kind not in ("str", "int", "float", "bool", "null", "merge"):
        return f"{shown}: no plain value; write it in quotes"
    if is_key and kind not in ("str", "merge"):
        return f"{shown}: a key is text; write it in quotes"
    if kind in ("int", "float") and len(value) > _LONGEST_NUMBER:
        return f"{shown}: a number of {len(value)} digits; expected at most {_LONGEST_NUMBER}"
    return None


def _tag_problem(tag: Any, *known: str) -> str | None:
    """Refuse a tag that would make an object, or another value than is written."""
    shown = str(tag or "").replace("tag:yaml.org,2002:", "!!")
    return (
        f"{shown}: expected no tag; leave it out" if shown.strip("!") not in ("", *known) else None
    )


def _unwanted(character: str) -> str:
    return f"{json.dumps(character)}: a control character; remove it"
