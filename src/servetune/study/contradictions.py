"""Arguments that vLLM refuses together, each of which it takes alone."""

from collections.abc import Mapping
from typing import Any

from servetune.study.conditions import holds, names_in

REFUSED = (
    "max_num_batched_tokens < max_num_seqs",
    "enable_chunked_prefill == false and max_num_batched_tokens < max_model_len",
    "long_prefill_token_threshold > max_model_len",
)
"""As vLLM's scheduler has them (vllm/config/scheduler.py, `verify_max_model_len`). An argument that
is not given is none of a contradiction: its default fits the others or depends on the host."""


def contradiction(arguments: Mapping[str, Any]) -> str | None:
    """Return which of REFUSED arguments of `vllm serve` break, by their names; None: none."""
    return next((rule for rule in REFUSED if _holds(rule, arguments)), None)


def told(rule: str, arguments: Mapping[str, Any]) -> str:
    """Say in words which arguments break a rule, and their values."""
    values = (f"{name} {arguments[name]}" for name in sorted(names_in(rule)))
    return f"vLLM refuses {rule}: here {', '.join(values)}"


def _holds(rule: str, arguments: Mapping[str, Any]) -> bool:
    try:
        return holds(rule, arguments)
    except ValueError:  # A number in words, such as 8k.
        return False
