"""Names of `vllm serve` arguments in other forms than the long name with underscores.

A study has one name for each argument, so that two studies, a diff and a condition of a tuning say
the same of the same. Whoever writes another form is told what to write instead; it means the same,
and never the opposite.
"""

import json
import re
from collections.abc import Collection
from typing import Any

from servetune.errors import nearest

_SHORT = {
    "ac": "attention_config",
    "asc": "api_server_count",
    "cc": "compilation_config",
    "dc": "diffusion_config",
    "dcp": "decode_context_parallel_size",
    "device_memory_utilization": "gpu_memory_utilization",
    "dp": "data_parallel_size",
    "dpa": "data_parallel_address",
    "dpb": "data_parallel_backend",
    "dpe": "data_parallel_external_lb",
    "dph": "data_parallel_hybrid_lb",
    "dpl": "data_parallel_size_local",
    "dpm": "data_parallel_multi_port_external_lb",
    "dpn": "data_parallel_rank",
    "dpp": "data_parallel_rpc_port",
    "dpr": "data_parallel_start_rank",
    "ep": "enable_expert_parallel",
    "n": "nnodes",
    "O": "optimization_level",
    "pcp": "prefill_context_parallel_size",
    "pp": "pipeline_parallel_size",
    "q": "quantization",
    "r": "node_rank",
    "sc": "speculative_config",
    "tp": "tensor_parallel_size",
}
"""Second names of arguments (vllm/engine/arg_utils.py)."""

_ALIKE = 0.8
"""From here on two names are taken for one with a slip: names of other arguments are less alike."""

_TURNED = {"disable": "enable", "enable": "disable"}


def other_spelling(name: str, value: Any, known: Collection[str] | None) -> str:
    """Return what to write in place of a name that no argument has, as `; write X: V`, or nothing.

    `known` are the long names that there are; None: they are not known.
    """
    meant, taken = meant_by(name, value)
    for long, its_value in ((meant, taken), _turned(meant, taken)):
        if long != name and (known is None or long in known):
            return f"; write {long}: {_flow(its_value)}"
    return nearest(meant, [one for one in known or () if _is_off(one) == _is_off(name)], _ALIKE)


def meant_by(name: str, value: Any) -> tuple[str, Any]:
    """Return the long name and the value of an argument in any form that vLLM takes.

    Those are dashes, short names, `-O3`, `--no-X`, and `--X.part`, which sets a part of a mapping.
    """
    head, *parts = name.lstrip("-").split(".")
    for part in reversed(parts):
        value = {part: value}
    if level := re.fullmatch(r"O([0-9])", head):
        return "optimization_level", int(level[1])
    word = head.replace("-", "_")
    long = _SHORT.get(word, word)
    return _off(long.removeprefix("no_"), value) if long.startswith("no_") else (long, value)


def _turned(name: str, value: Any) -> tuple[str, Any]:
    """Return `disable_X` as `enable_X`, and the reverse, with the value turned as well."""
    verb, _, what = name.partition("_")
    return _off(f"{_TURNED[verb]}_{what}", value) if verb in _TURNED else (name, value)


def _off(name: str, value: Any) -> tuple[str, Any]:
    # A flag without a value, and so null in YAML, is one that is given.
    return name, (not value if isinstance(value, bool) else False)


def _is_off(name: str) -> bool:
    return name.lstrip("-").startswith(("disable", "no_", "no-"))


def _flow(value: Any) -> str:
    """Write a value as YAML has it in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in value.items())}}}"
    return json.dumps(value)[:80]
