"""`vllm serve` arguments: checked against an engine's own parser, and written as an argv.

`servetune engine` dumps the parser of each engine that it builds; the dumps of the pinned
engines are also in `workflow/envs`, so that a mistake is found before anything is installed.
"""

import json
from typing import Any

from servetune.errors import UserError, nearest
from servetune.study.base import Frozen
from servetune.study.engines import ServerArguments

OWNED = {
    "api_key": "servetune makes one for each session",
    "host": "servers bind to 127.0.0.1",
    "model": "set the variant's model",
    "model_tag": "set the variant's model",
    "port": "servetune picks a free one",
    "served_model_name": "servetune names it after the session",
    "speculative_config": "set the variant's speculative",
    "uds": "servers bind to 127.0.0.1",
}
"""Arguments that servetune sets itself, and what to do instead."""


class Argument(Frozen):
    """One argument of `vllm serve`: `kind` is int, float, str, flag or other (not checked)."""

    option: str
    kind: str
    negatable: bool = False
    choices: list[str] | None = None


Parser = dict[str, Argument]
"""The arguments that an engine knows, by long name with underscores."""


def check_arguments(arguments: ServerArguments, parser: Parser, where: str) -> None:
    """Check arguments against what the engine's own parser accepts.

    `where` is the file and the key path up to their names, for the error.

    Raises:
        UserError: an argument that does not exist, that servetune sets, or of a wrong type.
    """
    for name, value in arguments.items():
        if name in OWNED:
            raise UserError(f"{where}{name}: cannot be set: {OWNED[name]}")
        known = parser.get(name)
        if known is None:
            hint = f"; write {name.replace('-', '_')}" if name.replace("-", "_") in parser else ""
            raise UserError(
                f"{where}{name}: vllm serve has no such argument{hint or nearest(name, parser)}"
            )
        if expected := _mismatch(known, value):
            raise UserError(f"{where}{name}: {json.dumps(value)}: expected {expected}")


def _mismatch(known: Argument, value: Any) -> str | None:
    # How many values an argument takes is for the engine to say.
    if value is None or isinstance(value, list):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if known.kind == "flag":
        return None if isinstance(value, bool) else "true or false"
    if known.kind == "int":
        return None if is_number and float(value).is_integer() else "a whole number"
    if known.kind == "float":
        return None if is_number else "a number"
    if known.choices and str(value) not in known.choices:
        return f"one of {', '.join(known.choices)}{nearest(str(value), known.choices)}"
    if known.kind == "str" and isinstance(value, bool | dict):
        return "text"
    return None


def as_argv(arguments: ServerArguments, parser: Parser) -> list[str]:
    """Write arguments as the list of words that `vllm serve` takes, in the order given.

    Raises:
        UserError: an argument that the engine does not know.
    """
    check_arguments(arguments, parser, "server: ")
    argv: list[str] = []
    for name, value in arguments.items():
        known = parser[name]
        if value is None or (value is False and not known.negatable):
            continue
        if known.kind == "flag":
            argv.append(known.option if value else known.option.replace("--", "--no-", 1))
        elif isinstance(value, list):
            argv += [known.option, *map(_word, value)]
        else:
            argv += [known.option, _word(value)]
    return argv


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | bool) else str(value)
