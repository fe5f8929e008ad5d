"""Write the reference of keys and commands, and the JSON schema that an editor checks a study by.

uv run python docs/reference.py

Everything comes from the models in servetune.study, from the commands of servetune.cli and from the
arguments that engines recorded; a test says when the files differ from them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from servetune.cli.app import app
from servetune.engines.arguments import OWNED, Argument
from servetune.study.study import Params, Study

ROOT = Path(__file__).parents[1]
Node = dict[str, Any]

HEADS = {
    "study": (
        "# Keys of a study\n\nEvery key of `studies/<name>.yaml`. `NAME` stands for a name of"
        " yours: letters, digits and, inside, `.`, `_` and `-`. Files are relative to the"
        " project's folder. [Adding a study](../adding-a-study.md) has a complete example."
    ),
    "params": (
        "# Keys of params.yaml\n\nEvery key of `params.yaml`. Any other key is a `vllm serve`"
        " argument by its long name with underscores: it overrides that argument in every variant,"
        " and left empty it keeps the study's value."
    ),
    "commands": (
        "# Commands\n\nEvery command of `servetune`, as `servetune COMMAND --help` prints it. Run"
        " them as `uv run servetune …` in the project's folder."
    ),
}
NOTE = "<!-- Written by docs/reference.py from the models in src/servetune/study. -->"
COMMANDS_NOTE = "<!-- Written by docs/reference.py from the commands in src/servetune/cli. -->"


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def generated() -> dict[Path, str]:
    """Return the files of the reference, by path, with their content."""
    schema = study_schema()
    params = TypeAdapter(Params).json_schema(schema_generator=_Untitled)
    return {
        ROOT / "studies/study.schema.json": json.dumps(schema, indent=1) + "\n",
        ROOT / "docs/reference/study.md": _page("study", schema),
        ROOT / "docs/reference/params.md": _page("params", params),
        ROOT / "docs/reference/commands.md": _commands(),
    }


def study_schema() -> Node:
    """JSON schema of a study, with the server arguments of all engines that recorded theirs."""
    schema = TypeAdapter(Study).json_schema(schema_generator=_Untitled)
    known: dict[str, list[Node]] = {}
    for path in sorted((ROOT / "workflow/envs").glob("*.arguments.json")):
        for name, argument in json.loads(path.read_text(encoding="utf-8")).items():
            options = known.setdefault(name, [])
            if name not in OWNED and (option := _value_of(Argument(**argument))) not in options:
                options.append(option)
    arguments = {name: {"anyOf": options} for name, options in sorted(known.items()) if options}
    schema["$defs"]["ServerArguments"] = {
        "type": "object",
        "description": "`vllm serve` arguments by their long name with underscores:"
        " `--max-num-seqs` is `max_num_seqs`; of `llama-cpp` the parameters of `xllamacpp`."
        " A flag takes `true` or `false`; `null` leaves the"
        " server's default. They are checked against the engine's own parser; that of a Python on"
        f" this host is known from the second run on. servetune sets {', '.join(sorted(OWNED))}"
        " itself and refuses them.",
        "properties": arguments,
        "additionalProperties": False,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _value_of(argument: Argument) -> Node:
    """JSON schema of an argument's value; how many values it takes is for the engine to say."""
    if argument.kind == "flag":
        return {"type": ["boolean", "null"]}
    if argument.kind in ("int", "float"):
        return {"type": ["integer" if argument.kind == "int" else "number", "array", "null"]}
    if argument.choices:
        numbers = [int(choice) for choice in argument.choices if choice.isdigit()]
        return {"enum": [*argument.choices, *numbers, None]}
    if argument.kind == "str":
        return {"type": ["string", "number", "array", "null"]}
    return {}


def _page(name: str, schema: Node) -> str:
    parts = [NOTE, HEADS[name], _table(schema, schema, "")]
    parts += [text for path, ref in _sections(schema) for text in _section(path, ref, schema)]
    return "\n\n".join(parts) + "\n"


def _sections(schema: Node) -> Iterator[tuple[str, list[str]]]:
    """Key path and definitions of each section; what stands at several paths comes last."""
    used: dict[str, list[str]] = {}

    def visit(node: Node, path: str) -> None:
        for key, value in node.get("properties", {}).items():
            for at, ref in _references(value, f"{path}.{key}".lstrip(".")):
                used.setdefault(ref, []).append(at)
                if len(used[ref]) == 1 and ref != "ServerArguments":
                    target = schema["$defs"][ref]
                    visit(target, at)
                    for _, option in _references({"oneOf": target.get("oneOf", [])}, at):
                        visit(schema["$defs"][option], at)

    visit(schema, "")
    at_path: dict[str, list[str]] = {}
    for ref, paths in used.items():
        at_path.setdefault(paths[0] if len(set(paths)) == 1 else ref, []).append(ref)
    shared = [path for path in at_path if path in schema["$defs"]]
    for path in [*(path for path in at_path if path not in shared), *shared]:
        yield path, at_path[path]


def _references(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Each definition that a value names, with the key path at which it stands."""
    if "$ref" in node:
        yield path, node["$ref"].rsplit("/", 1)[1]
    for option in (*node.get("anyOf", []), *node.get("oneOf", [])):
        yield from _references(option, path)
    for value in node.get("patternProperties", {}).values():
        yield from _references(value, f"{path}.NAME")
    if isinstance(items := node.get("items"), dict):
        yield from _references(items, f"{path}.N")


def _section(path: str, refs: list[str], schema: Node) -> Iterator[str]:
    level = "##" if path.count(".") < 2 else "###"
    yield f"{level} {_heading(path)}"
    for ref in refs:
        node = schema["$defs"][ref]
        if plain := [each for each in node.get("oneOf", []) if "$ref" not in each]:
            words = " or ".join(_type(each, path, schema) for each in plain)
            yield f"{words.capitalize()}, or one of these:"
        options = [name for _, name in _references({"oneOf": node.get("oneOf", [])}, "")]
        for name in options or [ref]:
            option = schema["$defs"][name]
            if options or len(refs) > 1:
                yield f"{level}# {_option_name(option)}"
            yield " ".join(option["description"].split())
            if name != "ServerArguments":
                yield _table(option, schema, path)


def _heading(path: str) -> str:
    is_shared = path[0].isupper()
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in path)
    return words.strip().capitalize() if is_shared else f"`{path}`"


def _option_name(node: Node) -> str:
    consts = {k: v["const"] for k, v in node["properties"].items() if "const" in v}
    if consts:
        return "".join(f"`{key}: {value}`" for key, value in consts.items())
    return "`{" + ", ".join(node["required"]) + "}`"


def _table(node: Node, schema: Node, path: str) -> str:
    rows = ["| Key | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for key, value in node["properties"].items():
        if "const" in value:
            continue
        default = "required" if key in node.get("required", []) else _default(value)
        kind = _type(value, f"{path}.{key}".lstrip("."), schema)
        rows.append(f"| `{key}` | {kind} | {default} | {value['description']} |")
    return "\n".join(rows)


def _default(value: Node) -> str:
    default = value.get("default")
    is_plain = default is not None and not isinstance(default, dict | list)
    return f"`{json.dumps(default)}`".replace('"', "") if is_plain else ""


def _type(node: Node, path: str, schema: Node) -> str:
    """A value's type in words, with links to the sections of this page."""
    options = [*node.get("anyOf", []), *node.get("oneOf", [])]
    if options:
        words = [_type(each, path, schema) for each in options if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    if "$ref" in node:
        ref = node["$ref"].rsplit("/", 1)[1]
        where = next(at for at, refs in _sections(schema) if ref in refs)
        heading = _heading(where)
        slug = "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        return f"[{heading}](#{slug})"
    if "const" in node or "enum" in node:
        return " or ".join(f"`{each}`" for each in node.get("enum", [node.get("const")]))
    if node["type"] == "array":
        return f"list of {_type(node['items'], path, schema)}".replace("list of name", "names")
    if node["type"] == "object":
        inner = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        kinds = _type(inner[0], path, schema) if isinstance(inner[0], dict) else "anything"
        return f"{kinds} by name"
    return _scalar(node)


def _scalar(node: Node) -> str:
    kind = node["type"]
    if kind == "string":
        pattern = node.get("pattern", "")
        words = {"path": "path"}.get(node.get("format", ""), "name" if "._-" in pattern else "text")
        return "percentage" if "%" in pattern else words
    if kind == "boolean":
        return "`true` or `false`"
    words = "whole number" if kind == "integer" else "number"
    bounds = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
    bounds["exclusiveMaximum"] = "below"
    limits = [f"{word} {node[bound]:,.12g}" for bound, word in bounds.items() if bound in node]
    return " ".join([words, *limits])


def _commands() -> str:
    """The page of the commands, with their arguments and options."""
    parts = [COMMANDS_NOTE, HEADS["commands"]]
    for name, command in _named(typer.main.get_command(app), "servetune"):
        parts.append(f"## `{name}`")
        parts.append(" ".join((command.help or "").split()))
        rows = [
            f"| {_spelled(each)} | {' '.join((getattr(each, 'help', None) or '').split())} |"
            for each in command.params
            if not getattr(each, "hidden", False) and each.name not in _OF_EVERY_COMMAND
        ]
        if rows:
            parts.append("\n".join(["| Argument or option | Meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


_OF_EVERY_COMMAND = ("help", "install_completion", "show_completion")


def _named(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each command with its full name; a group stands for its commands."""
    for key, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from _named(each, f"{name} {key}")
        elif not each.hidden:
            yield f"{name} {key}", each


def _spelled(parameter: Any) -> str:
    """How a parameter is written on the command line."""
    if parameter.param_type_name == "argument":
        return f"`{(parameter.metavar or parameter.name).upper()}`".replace(" | ", "` or `")
    flag = "" if parameter.is_flag else f" {parameter.name.upper()}"
    return f"`{parameter.opts[0]}{flag}`"


def main() -> None:
    """Write the files."""
    for path, text in generated().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
