"""The study of a check: what it sent, to be measured again, and kept."""

import re
from datetime import UTC, datetime
from typing import Any

import yaml

from servetune.check.run import PROMPTS, Check

WARM_UP = 4
"""Requests before each load of a study, which a check does without."""

BESIDE = 10
"""Requests beside the loads: a small first one, and some that are sent again."""


def name_of(check: Check) -> str:
    """Return the name of its study."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", check.model.rpartition("/")[2]).strip("-").lower()
    return f"check-{slug[:40] or 'endpoint'}"


def study_of(check: Check) -> str:
    """Write the study as YAML."""
    asked, targets = check.asked, check.asked.targets
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    points = sorted(
        ({"concurrency": level.clients, "requests": level.sent} for level in check.levels),
        key=lambda point: point["concurrency"],
    )
    sent = sum(point["requests"] + WARM_UP for point in points)
    endpoint: dict[str, Any] = {"url": asked.url, "model": check.model}
    if asked.key_env:
        endpoint["key_env"] = asked.key_env
    if asked.headers_env:
        endpoint["headers_env"] = asked.headers_env
    if asked.ca:
        endpoint["ca"] = str(asked.ca)
    if check.opened.is_openai:
        endpoint["dialect"] = "openai"
    if check.opened.metrics:
        endpoint["metrics"] = check.opened.metrics
    endpoint |= {"block": today, "limits": {"requests": sent + BESIDE}}
    workload: dict[str, Any] = {"dataset": "text", "endpoint": check.opened.api}
    if check.opened.is_openai:
        workload["ignore_eos"] = False
    workload |= {
        "slo": {
            "goodput_ratio": targets.share,
            "ttft_ms": targets.ttft_ms,
            "tpot_ms": targets.tpot_ms,
        },
        "load_points": points,
    }
    content = {
        "question": f"How many clients does {check.model} serve within the targets?",
        "hardware": asked.hardware,
        "baseline": "endpoint",
        "variants": {"endpoint": {"endpoint": endpoint}},
        "datasets": {
            "text": {
                "kind": "text",
                "requests": PROMPTS,
                "input_words": asked.input_words,
                "output_tokens": asked.output_tokens,
            }
        },
        "workloads": {"chat": workload},
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    return (
        f"# Written by servetune check on {today}: the loads that it sent, as a study.\n"
        "# Another `block` measures again, and three `repeats` tell how much it varies. A second\n"
        f"# variant beside it is measured in turn with it, and gets a verdict.\n{text}"
    )
