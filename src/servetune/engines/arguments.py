"""A server's arguments: checked against an engine's own parser, and written as an argv.

`servetune engine` dumps the parser of each engine that it builds; the dumps of the pinned
engines are also in `workflow/envs`, so that a mistake is found before anything is installed.
"""

import json
import math
import re
from typing import Any

from servetune.engines.spelling import meant_by, other_spelling
from servetune.errors import UserError, nearest
from servetune.study.base import Frozen
from servetune.study.engines import ServerArguments

_HTTP = "load clients speak HTTP"
_LOCAL = "servers bind to 127.0.0.1"
_SPECULATIVE = "set the variant's speculative"

OWNED = {
    "api_key": "servetune makes one for each session",
    "config": "give what that file holds as arguments of the study",
    "disable_log_stats": "it takes away the counters that every measurement is checked against",
    "grpc": _HTTP,
    "grpc_port": _HTTP,
    "headless": "a session asks the API server",
    "hf_token": "a study is recorded, so it holds no secrets",
    "host": _LOCAL,
    "middleware": "servetune's own asks for the key of the launch",
    "model": "set the variant's model",
    "model_tag": "set the variant's model",
    "port": "servetune picks a free one",
    "root_path": "load clients ask for /v1",
    "served_model_name": "servetune names it after the session",
    "spec_method": _SPECULATIVE,
    "spec_model": _SPECULATIVE,
    "spec_tokens": _SPECULATIVE,
    "speculative_config": _SPECULATIVE,
    "ssl_ca_certs": _HTTP,
    "ssl_cert_reqs": _HTTP,
    "ssl_certfile": _HTTP,
    "ssl_keyfile": _HTTP,
    "uds": _LOCAL,
}
"""Arguments that servetune sets itself, and what to do instead."""

_ADAPTERS = ("default_mm_loras", "enable_lora", "lora_modules")
_BY_VARIANT = "servetune sets it where the variant has adapters; name them there"

# Least and most, beyond any model and machine: what is outside is a slip.
_ANY_COUNT = (0, 10**15)
_DEVICES = (1, 65_536)
_TOKENS = (1, 10**9)
_RANGES: dict[str, tuple[float, float]] = {
    "block_size": (1, 10**6),
    "data_parallel_size": _DEVICES,
    "decode_context_parallel_size": _DEVICES,
    # A hundredth of a device holds no model.
    "gpu_memory_utilization": (0.01, 1),
    "kv_cache_memory_bytes": (1, 10**15),
    "max_logprobs": (-1, 10**7),
    "max_loras": (1, 10**6),
    "max_model_len": (-1, 10**7),
    "max_num_batched_tokens": _TOKENS,
    "max_num_partial_prefills": (1, 10**6),
    "max_num_scheduled_tokens": _TOKENS,
    "max_num_seqs": (1, 10**6),
    "nnodes": _DEVICES,
    "num_gpu_blocks_override": (1, 10**12),
    "pipeline_parallel_size": _DEVICES,
    "prefill_context_parallel_size": _DEVICES,
    "seed": (0, 2**32 - 1),
    "stream_interval": (1, 10**6),
    "tensor_parallel_size": _DEVICES,
}
"""What vLLM takes of a number, ends included; what is not named here is not negative."""

_READABLE = re.compile(r"auto|-1|[0-9]+(\.[0-9]+)?[kKmMgGtT]?")
"""A number as vLLM reads it where its parser tells no type."""


class Argument(Frozen):
    """One argument of a server: `kind` is int, float, str, flag or other (not checked)."""

    option: str
    kind: str
    negatable: bool = False
    choices: list[str] | None = None


Parser = dict[str, Argument]
"""The arguments that an engine knows, by long name with underscores."""


def check_arguments(
    arguments: ServerArguments, parser: Parser | None, where: str, program: str = "vllm serve"
) -> None:
    """Check arguments against what the engine's own parser accepts; None: it is not known yet.

    `where` is the file and the key path up to their names, and `program` what takes them, for the
    error.

    Raises:
        UserError: an argument that does not exist, that servetune sets, or whose value is wrong.
    """
    for name, value in arguments.items():
        if instead := _instead_of(name, parser or {}):
            raise UserError(f"{where}{name}: cannot be set: {instead}")
        known = (parser or {}).get(name)
        is_long = re.fullmatch("[a-z][a-z0-9_]*", name) and meant_by(name, None)[0] == name
        if known is None and (parser is not None or not is_long):
            hint = other_spelling(name, value, parser)
            raise UserError(f"{where}{name}: {program} has no such argument{hint}")
        known = known or Argument(option="", kind="other")
        if value is None:
            continue
        if value and name in _ADAPTERS:
            raise UserError(f"{where}{name}: cannot be set: {_BY_VARIANT}")
        if isinstance(value, list) and name in _RANGES:
            raise UserError(f"{where}{name}: {json.dumps(value)[:80]}: expected one number")
        for item in value if isinstance(value, list) and known.kind != "flag" else [value]:
            if expected := _mismatch(known, name, item):
                raise UserError(f"{where}{name}: {json.dumps(item)[:80]}: expected {expected}")


def _instead_of(name: str, parser: Parser) -> str | None:
    """Say what to do instead of an argument that is servetune's, in any form vLLM takes it in."""
    if name in parser and name not in OWNED:
        return None
    # --speculative-config.model sets a part of it, --hos is taken for --host.
    word = re.split(r"[.+=]", meant_by(name, None)[0])[0]
    meant = [owned for owned in OWNED if word and owned.startswith(word)]
    return OWNED.get(word) or (OWNED[meant[0]] if meant else None)


def _mismatch(known: Argument, name: str, value: Any) -> str | None:
    """Say what was expected in place of a value; how many there are is for the engine to say."""
    if known.kind == "flag":
        return None if isinstance(value, bool) else "true or false"
    if value is None or isinstance(value, list):
        return "text, a number, true or false"
    if isinstance(value, dict):
        return _dict_mismatch(known, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_mismatch(known, name, value)
    if known.kind in ("int", "float"):
        return "a whole number" if known.kind == "int" else "a number"
    if known.choices and value not in known.choices:
        return f"one of {', '.join(known.choices)}{nearest(str(value), known.choices)}"
    if isinstance(value, bool):
        return "text" if known.kind == "str" else "a number" if name in _RANGES else None
    if name in _RANGES and not _READABLE.fullmatch(value):
        return "a number"
    # vLLM would take it for another option.
    return "a value that does not begin with a dash" if value.startswith("-") else None


def _number_mismatch(known: Argument, name: str, value: float) -> str | None:
    if known.choices and str(value) not in known.choices:
        return f"one of {', '.join(known.choices)}"
    least, most = _RANGES.get(name, _ANY_COUNT)
    is_count = known.kind == "int" or (name in _RANGES and most > 1)
    if is_count and not (math.isfinite(value) and float(value).is_integer()):
        return "a whole number"
    if not least <= value <= most:
        return f"a number from {least:,.12g} to {most:,.12g}"
    return None


def _dict_mismatch(known: Argument, value: dict[str, Any]) -> str | None:
    if known.kind != "other" or known.choices:
        return "text" if known.kind == "str" else "a number"
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return "finite numbers in it"
    return None


def as_argv(arguments: ServerArguments, parser: Parser) -> list[str]:
    """Write arguments as the list of words that a server takes, in the order given.

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
