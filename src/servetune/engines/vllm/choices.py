"""What a server decided only as it started, and which settings it ignored: from its log.

Its configuration tells neither. The wording is that of vLLM 0.8 to 0.33, on CUDA and on the CPU; of
what no line tells nothing is known.
"""

import difflib
import re
from collections.abc import Collection
from pathlib import Path

FALLBACK = "PyTorch-native"

CHOICES = (
    ("attention backend", r"Using (?:AttentionBackendEnum\.)?(\w+) attention backend out of"),
    ("attention backend", r"Using (?:AttentionBackendEnum\.)?(\w+) backend\.$"),
    ("attention backend", r"Using ([\w -]+?) backend on V1 engine"),
    ("attention kernels", r"Using (FlashAttention version \d+)"),
    ("MLA prefill backend", r"Using (\S+) MLA prefill backend"),
    ("MoE backend", r"Using (.+?) M[oO]E backend"),
    ("MoE backend", r"Using (\w+) backend for \w+ MoE"),
    ("linear kernel", r"(?:Selected|Using) (\w*Kernel) for "),
    ("sampler", r"Using (FlashInfer) for top-p & top-k sampling"),
    ("sampler", rf"[Ff]alling back to (?:the )?({FALLBACK}) implementation of top-p"),
    ("sampler", r"FlashInfer top-p/top-k sampling (?:disabled|unavailable)"),
    ("all-reduce", r"Using \[(.*?)\] all-reduce backends"),
    ("KV cache layout", r"Using (\w+) KV cache layout"),
    ("model runner", r"[Uu]sing (?:the )?(V\d) [Mm]odel [Rr]unner"),
    ("custom fusions", r"Enabled custom fusions: (.+)$"),
    ("CUDA graphs", r"Capturing CUDA graphs \(([^)]+)\): 100%\|.*?\| (\d+)/\d+"),
)
"""Rows of a choice and a line that tells it, which may have several wordings. The groups are what
was chosen; a line without any tells that a fallback was."""

IGNORED = {
    "WARNING": (
        r"ignor|overrid|fall(?:ing|s)? ?back|disabl|not (?:supported|compatible)|incompatible"
        r"|does not (?:support|have native support)|defaulting to|instead|no effect|[Cc]annot use"
        r"|[Rr]everting|precluded|Truncating|Casting|[Ff]orcing|[Ss]etting \S+ to"
        r"|Unknown vLLM environment variable"
    ),
    "INFO": (
        r"^(?:Disabling|Forcing|Setting (?:attention|kv cache) block size)|reduced from"
        r"|[Oo]verriding|[Ff]alling back|Chunked prefill is (?:disabled|not)"
    ),
}
"""What tells that a setting was ignored or changed, by the level of the line."""

EXPECTED = (
    r"Enforce eager set|eager mode|disabled by user settings"
    r"|implementation of top-p|top-p/top-k sampling"
)
"""Lines that only repeat a setting, or that are a choice."""

UNKNOWN_VARIABLE = "Unknown vLLM environment variable detected: "

_LINE = re.compile(r"(INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] (.*)$")


def read_choices(log: str) -> dict[str, str]:
    """Return what was chosen, by name; the choices of several layers or models are listed."""
    found: dict[str, set[str]] = {}
    for name, pattern in CHOICES:
        for match in re.finditer(pattern, log, re.MULTILINE):
            words = [word.replace("'", "") for word in match.groups()]
            found.setdefault(name, set()).add(": ".join(words) or FALLBACK)
    return {name: "; ".join(sorted(values)) for name, values in found.items()}


def read_ignored(log: str, variables: Collection[str] = ()) -> list[str]:
    """Return the lines that tell of settings that were ignored or changed, each once.

    `variables` are the environment variables that the engine knows: an unknown one gets the
    nearest of them.
    """
    lines = (match.groups() for line in log.splitlines() if (match := _LINE.search(line)))
    told = [
        message.strip()
        for level, message in lines
        if re.search(IGNORED[level], message) and not re.search(EXPECTED, message)
    ]
    return [_with_nearest(message, variables) for message in dict.fromkeys(told)]


def _with_nearest(message: str, variables: Collection[str]) -> str:
    _, _, name = message.partition(UNKNOWN_VARIABLE)
    near = difflib.get_close_matches(name, variables, 1, 0.8) if name else []
    return f"{message}; did you mean {near[0]}?" if near else message


def known_variables(python: Path) -> set[str]:
    """Return the environment variables that the vLLM of an environment names; empty if none."""
    sources = python.parent.parent.glob("lib/python*/site-packages/vllm/envs.py")
    return {name for file in sources for name in re.findall(r'"(VLLM_\w+)"', file.read_text())}
