"""Short names of a tuning's candidates: what differs from the base, in the words of the field."""

import re
from collections import Counter
from collections.abc import Sequence

from servetune.study.space import Candidate
from servetune.study.tune import Value

SHORT = {
    "api_server_count": "{} api",
    "block_size": "block {}",
    "data_parallel_size": "dp {}",
    "gpu_memory_utilization": "{} of memory",
    "kv_cache_dtype": "kv {}",
    "max_model_len": "{} context",
    "max_num_batched_tokens": "{} tokens",
    "max_num_seqs": "{} seqs",
    "model": "{}",
    "pipeline_parallel_size": "pp {}",
    "quantization": "{}",
    "speculative": "{}",
    "tensor_parallel_size": "tp {}",
}
"""How a setting is called where its value says the rest; any other has its own name."""

SEPARATOR = " \N{MIDDLE DOT} "


def labels(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return a short name of each candidate by its own; the base, the first, keeps its name.

    Two that would be called alike keep their own names.
    """
    base = candidates[0]
    short = {base.name: base.name}
    for each in candidates[1:]:
        words = [
            _word(setting, value, base.values[setting])
            for setting, value in each.values.items()
            if value != base.values[setting]
        ]
        short[each.name] = SEPARATOR.join(words) or each.name
    counts = Counter(short.values())
    return {name: label if counts[label] == 1 else name for name, label in short.items()}


def _word(setting: str, value: Value, base: Value) -> str:
    """Write a value as `fp8`, `256 seqs` or `kv fp8`."""
    if isinstance(value, bool):
        plain = setting.removeprefix("enable_").replace("_", " ")
        return plain if value else f"no {plain}"
    if value in (None, "none"):
        return f"no {setting.replace('_', ' ')}" if value == "none" else f"default {setting}"
    told = _number(value) if isinstance(value, int) else str(value)
    if setting == "model":
        told = _beyond(told, str(base))
    named = SHORT.get(setting, f"{setting.removeprefix('environment.')} {{}}")
    return named.format(told)


def _number(value: int) -> str:
    """Write a round number of tokens or sequences shortly: 16k for 16,384."""
    return f"{value // 1024}k" if value >= 2048 and value % 1024 == 0 else f"{value}"


def _beyond(name: str, base: str) -> str:
    """Leave out the words with which a name begins as the base's does: fp8 of llama-8b-fp8."""
    words, of_base = re.split(r"([-_.])", name), re.split(r"([-_.])", base)
    same = 0
    while same < min(len(words), len(of_base)) and words[same] == of_base[same]:
        same += 1
    return "".join(words[same:]).strip("-_.") or name
