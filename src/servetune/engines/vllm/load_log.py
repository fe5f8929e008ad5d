"""What a server wrote to its log while it was loaded: what spoils a load, and what it warned of.

The wording is that of vLLM 0.8 to 0.33 and of the compilers that it runs. vLLM tells since 0.21
which kernels are compiled after its own warm-up, each once a process.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from servetune.sentences import count_kinds, sentence
from servetune.study.secrets import redacted

EVENTS = (
    ("compiled_kernels", r"JIT compilation during inference: ([\w.:<>-]*[\w>])"),
    ("compiled_kernels", r"Triton autotuning for function (\w+)"),
    ("compiled_kernels", r"TileLang begins to compile kernel `?(\w+)"),
    ("compiled_kernels", r"Compiling a (graph) for "),
    ("log_preemptions", r"is (preempted) by PreemptionMode"),
    ("engine_restarts", r"(Initializing a V\d LLM engine)"),
)
"""Rows of a card's field and a line that tells of it; the group is what was compiled."""

MOST_WARNINGS = 10
"""Kinds of warnings on a card, the first ones: more than one reads beside a load."""

_WARNING = re.compile(r"\b(?:WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] (.*\S)")


def read_load_log(log: Path, began: int, ended: int, secrets: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a card that the log tells, between two of its sizes in bytes.

    `secrets` are not told.
    """
    with log.open("rb") as file:
        file.seek(began)
        text = file.read(max(0, ended - began)).decode(errors="replace")
    text = redacted(text, secrets)
    events: dict[str, list[str]] = {field: [] for field, _ in EVENTS}
    for field, pattern in EVENTS:
        events[field] += re.findall(pattern, text)
    warnings = count_kinds(sentence(line) for line in _WARNING.findall(text))
    return {
        "compiled_kernels": list(dict.fromkeys(events["compiled_kernels"])),
        "log_preemptions": len(events["log_preemptions"]),
        "engine_restarts": len(events["engine_restarts"]),
        "log_warnings": [
            f"{line} ({count}x)" if count > 1 else line for line, count in warnings[:MOST_WARNINGS]
        ],
    }
