"""The words after `vllm serve` as a study has them: long names, values, and what is not kept."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from servetune.commands.words import Command, unset
from servetune.engines.arguments import OWNED, Parser
from servetune.engines.spelling import meant_by
from servetune.errors import UserError, nearest
from servetune.study.secrets import is_secret

_OPTION = re.compile(r"-{1,2}[A-Za-z]")

GONE = {
    "device": "vLLM finds the device",
    "disable_async_output_proc": "vLLM has one way",
    "disable_frontend_multiprocessing": "vLLM has one way",
    "disable_log_requests": "requests are logged only where that is asked for",
    "num_scheduler_steps": "vLLM has one way",
    "preemption_mode": "vLLM has one way",
    "swap_space": "vLLM swaps nothing any more",
    "use_v2_block_manager": "vLLM has one way",
    "v": "it is of the terminal",
}
"""Arguments of older versions that do nothing in today's."""

_LORA = {"enable_lora", "lora_modules"}
_SPECULATIVE = {
    "speculative_config": None,
    "spec_method": "method",
    "spec_model": "model",
    "spec_tokens": "num_speculative_tokens",
}
_CREDENTIALS = {"api_key": None, "hf_token": "HF_TOKEN"}


@dataclass
class Served:
    """A server as a study declares it; `dropped` says what is servetune's, and why."""

    model: str
    server: dict[str, Any] = field(default_factory=dict)
    speculative: dict[str, Any] | None = None
    adapters: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    environment_from: list[str] = field(default_factory=list)
    version: str | None = None
    revision: str | None = None
    dropped: list[str] = field(default_factory=list)
    name: str = ""


def served_of(command: Command, parser: Parser | None) -> Served:
    """Read a server's command; `parser` is of the engine that is to serve it, None: not known.

    Raises:
        UserError: no model, an argument that the engine does not have, or a variable of a shell
            that nothing sets.
    """
    options, positional = options_of(command.arguments, parser)
    served = Served(model="", version=command.version)
    taken = _taken(options, served, parser)
    model = taken.pop("model", None) or taken.pop("model_tag", None)
    served.model = str(model or (positional[0] if positional else ""))
    if not served.model:
        raise UserError(
            "from: no model in the command; expected `vllm serve MODEL`, or --model MODEL"
        )
    if len(positional) > 1 and not model:
        raise UserError(
            f"from: word {command.arguments.index(positional[1]) + 1} after serve belongs to no"
            " argument; check the quotes and the line breaks"
        )
    for word in (served.model, *map(str, _leaves(taken))):
        if variable := unset(word):
            raise UserError(
                f"from: what is ${variable}? Write its value, or {variable}=… before the command"
            )
    revision = taken.get("revision")
    if isinstance(revision, str) and re.fullmatch(r"[0-9a-f]{40}", revision):
        served.revision = taken.pop("revision")
    served.server = taken
    _environment(command, served)
    if command.outside:
        # Only the program: a word after it may be a secret.
        first = command.outside[0]
        served.dropped.append(f"{first}: servetune starts vLLM itself; options there are left out")
    return served


def _leaves(content: Any) -> list[Any]:
    if isinstance(content, dict):
        return [leaf for value in content.values() for leaf in _leaves(value)]
    if isinstance(content, list):
        return [leaf for value in content for leaf in _leaves(value)]
    return [content]


def options_of(words: list[str], parser: Parser | None) -> tuple[list[tuple[str, Any]], list[str]]:
    """Split words into options with their values, in order, and the words that are none."""
    options: list[tuple[str, Any]] = []
    positional: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _OPTION.match(word):
            positional.append(word)
            continue
        option, joined, value = word.partition("=")
        values = [value] if joined else []
        is_flag, takes_several = _kind_of(option, parser)
        while not joined and at < len(words) and not _OPTION.match(words[at]):
            if is_flag and words[at].lower() not in ("true", "false"):
                break
            if values and not takes_several:
                break
            values.append(words[at])
            at += 1
        options.append((option, _value_of(option, values, is_flag, parser)))
    if not positional and options and isinstance(options[-1][1], list):
        *values, last = options[-1][1]
        options[-1] = (options[-1][0], values[0] if len(values) == 1 else values)
        positional.append(str(last))
    return options, positional


def long_name(option: str, parser: Parser | None) -> str:
    """Return the long name that an option means, also where it is a part of one."""
    name, _ = meant_by(option, True)
    if parser is None or name in parser or name in OWNED:
        return name
    begun = [known for known in (*parser, *OWNED) if known.startswith(name)]
    return begun[0] if len(set(begun)) == 1 and len(name) > 2 else name


def _kind_of(option: str, parser: Parser | None) -> tuple[bool, bool]:
    """Tell whether an option takes no value, and whether it may take several."""
    if "." in option:
        return False, False
    known = (parser or {}).get(long_name(option, parser))
    if known is None:
        return False, True
    is_turned = option.lstrip("-").replace("-", "_").startswith("no_")
    return known.kind == "flag" or is_turned, known.kind == "other" and not known.choices


def _value_of(option: str, values: list[str], is_flag: bool, parser: Parser | None) -> Any:
    if not values:
        return True
    if is_flag:
        return values[0].lower() != "false"
    known = (parser or {}).get(long_name(option, parser))
    kind = "other" if known is None or "." in option else known.kind
    read = [_read(value, kind) for value in values]
    return read[0] if len(read) == 1 else read


def _read(word: str, kind: str) -> Any:
    """Read a word as its argument's kind has it; of a kind that is not known, as JSON if it is."""
    if kind == "str":
        return word
    if kind in ("int", "float"):
        try:
            return int(word) if kind == "int" else float(word)
        except ValueError:
            return word
    try:
        value = json.loads(word)
    except ValueError:
        lowered = {"true": True, "false": False}
        return lowered.get(word.lower(), word)
    # A large number in other words, and what JSON calls null, stay as they are written.
    return word if value is None or isinstance(value, str) else value


def _taken(options: list[tuple[str, Any]], served: Served, parser: Parser | None) -> dict[str, Any]:
    """Sort options into what is kept, returned by long name, and what `served` says of others."""
    taken: dict[str, Any] = {}
    for option, given in options:
        name, value = meant_by(option, given)
        name = long_name(name, parser) if name not in (parser or {}) else name
        if name == "optimization_level" and isinstance(value, dict):
            name = "compilation_config"
        if name in ("model", "model_tag"):
            taken["model"] = value
        elif name in _SPECULATIVE:
            _speculate(name, value, served)
        elif name in _LORA:
            _adapt(name, value, served)
        elif name in _CREDENTIALS:
            _credential(option, name, value, served)
        elif name in OWNED:
            served.dropped.append(f"{option}: {OWNED[name]}")
        elif parser is not None and name not in parser:
            if name.removeprefix("no_") not in GONE:
                raise UserError(
                    f"from: {option}: vllm serve has no such argument{nearest(name, parser)}; for"
                    " another version of vLLM give --vllm VERSION"
                )
            served.dropped.append(f"{option}: {GONE[name]}")
        elif isinstance(value, dict) and isinstance(taken.get(name), dict):
            taken[name] = _merged(taken[name], value)
        else:
            taken[name] = value
    return taken


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = {**one}
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _speculate(name: str, value: Any, served: Served) -> None:
    key = _SPECULATIVE[name]
    told = value if key is None else {key: value}
    if not isinstance(told, dict):
        raise UserError("from: --speculative-config: expected JSON, as '{\"method\": …}'")
    served.speculative = _merged(served.speculative or {}, told)


def _adapt(name: str, value: Any, served: Served) -> None:
    if name == "enable_lora":
        served.dropped.append("--enable-lora: servetune sets it where a variant has adapters")
        return
    for one in value if isinstance(value, list) else [value]:
        adapter, path = (
            (one.get("name"), one.get("path"))
            if isinstance(one, dict)
            else (str(one).partition("=")[0], str(one).partition("=")[2])
        )
        if not adapter or not path:
            raise UserError(f"from: --lora-modules {one}: expected NAME=PATH")
        served.adapters[str(adapter)] = str(path)


def _credential(option: str, name: str, value: Any, served: Served) -> None:
    variable = _CREDENTIALS[name]
    if variable is None:
        served.dropped.append(f"{option}: {OWNED[name]}")
        return
    if variable not in served.environment_from:
        served.environment_from.append(variable)
    served.dropped.append(f"{option}: its value is a secret; set {variable} in your shell")


_OWN_VARIABLES = re.compile(r"SERVETUNE_.*|VLLM_API_KEY|VLLM_SERVER_DEV_MODE")


def _environment(command: Command, served: Served) -> None:
    """Keep the variables of a server: secrets by their names, and none that servetune sets."""
    for name, value in command.environment.items():
        if _OWN_VARIABLES.fullmatch(name):
            served.dropped.append(f"{name}: servetune sets it for each launch")
        elif is_secret(name):
            command.names.append(name)
        elif (variable := unset(value)) is not None:
            if variable != name:
                raise UserError(f"from: {name}: what is ${variable}? Write its value")
            command.names.append(name)
        else:
            served.environment[name] = value
    for name in command.names:
        if _OWN_VARIABLES.fullmatch(name):
            served.dropped.append(f"{name}: servetune sets it for each launch")
            continue
        if name == "HUGGING_FACE_HUB_TOKEN":
            served.dropped.append(f"{name}: an old name; set HF_TOKEN in your shell")
            name = "HF_TOKEN"
        if name not in served.environment_from:
            served.environment_from.append(name)
