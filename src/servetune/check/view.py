"""What a check found, in words that need no manual."""

import json
from collections.abc import Iterator
from typing import Any

from servetune.check.levels import Level, serves
from servetune.check.run import Check
from servetune.check.way import Way

FULL, ROOM = 0.9, 0.5
"""Of a KV cache: one that is full limits, one with so much room does not."""

TITLES = {"ttft": "TTFT", "tpot": "TPOT", "failures": "failed requests"}
NO_METRICS = "no metrics found, so KV cache and queue are not known"


def head(check: Check) -> Iterator[str]:
    """Say what answers, and how far it is."""
    opened, told = check.opened, check.opened.endpoint.fingerprint
    engine = opened.endpoint.engine_title or "an engine that does not tell"
    parts = [f"{engine} {told.get('version', '')}".strip()]
    if (context := told.get("max_model_len", "")).isdigit():
        parts.append(f"context of {int(context):,} tokens")
    yield f"{check.asked.url} serves {check.model}: {', '.join(parts)}"
    api = f"{opened.api}{', without fields beyond those of OpenAI' if opened.is_openai else ''}"
    known = f"metrics: {', '.join(opened.metrics)}" if opened.metrics else NO_METRICS
    yield f"  API: {api}; {known}"
    yield f"  The way there: {_way(opened.way)}"


def _way(way: Way) -> str:
    parts = (
        ("DNS", way.name_ms),
        ("TCP connection", way.connect_ms),
        ("TLS", way.tls_ms),
        ("a small request there and back", way.request_ms),
    )
    return ", ".join(f"{name} {_ms(value)}" for name, value in parts if value is not None)


WIDTHS = (7, 9, 7, 7, 9, 7, 7, 7, 9, 7, 9)
"""Of the columns, in characters."""

HEADS = (
    ("", "", "TTFT", "ms", "without", "TPOT", "ms", "output", "within", "KV", ""),
    (
        "clients",
        "answers",
        "p50",
        "p90",
        "the way",
        "p50",
        "p90",
        "tok/s",
        "targets",
        "cache",
        "waiting",
    ),
)


AT_ONCE_MS = 0.05
"""A TPOT that would be printed as 0.0: 20,000 tokens/s of one answer, which nothing decodes."""

BUFFERED = (
    "The stream is buffered on the way: the tokens of an answer came at once, so TTFT is about the"
    " time of the whole answer, and TPOT is not known. Turn off the buffering of the proxy there."
)


def table_of(check: Check) -> Iterator[str]:
    """Yield the lines of a table, a row a load, by clients."""
    levels = sorted(check.levels, key=lambda level: level.clients)
    for cells in (*HEADS, *(_cells(level, check) for level in levels)):
        aligned = (f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
        yield "".join(aligned).rstrip()


def _cells(level: Level, check: Check) -> tuple[str, ...]:
    metrics, answers = level.metrics, f"{level.answered}/{level.sent}"
    if metrics is None:
        return (str(level.clients), answers, *["-"] * (len(WIDTHS) - 2))
    tpot = (metrics.tpot_p50_ms, metrics.tpot_p90_ms)
    return (
        str(level.clients),
        answers,
        _figure(metrics.ttft_p50_ms),
        _figure(metrics.ttft_p90_ms),
        _figure(without_way(metrics.ttft_p50_ms, check.opened.way)),
        *(["-", "-"] if _is_buffered(level) else map(_figure, tpot)),
        _figure(metrics.output_throughput_tok_s),
        _percent(level.within),
        _percent(level.kv_cache_ratio),
        "-" if level.waiting is None else str(level.waiting),
    )


def _is_buffered(level: Level) -> bool:
    """Tell whether the tokens of an answer came at once: no server decodes so fast."""
    tpot_ms = level.metrics.tpot_p50_ms if level.metrics else None
    return tpot_ms is not None and tpot_ms < AT_ONCE_MS


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.0f}%"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def without_way(ttft_ms: float | None, way: Way) -> float | None:
    """Return a TTFT less a small request's way there and back, which each request has, too."""
    if ttft_ms is None or way.request_ms is None:
        return None
    return max(0.0, ttft_ms - way.request_ms)


def answer(check: Check) -> Iterator[str]:
    """Say how many clients are served within the targets, and where and by what it breaks."""
    if any(map(_is_buffered, check.levels)):
        yield BUFFERED
    targets = check.asked.targets
    within = (
        f"TTFT {targets.ttft_ms:,g} ms and {targets.tpot_ms:g} ms a token"
        f" (for {100 * targets.share:g} % of requests)"
    )
    served, broken = serves(check.levels, targets.share)
    if not check.levels:
        yield f"Nothing was measured: {check.ended or 'no load was sent'}."
        return
    if served is None:
        yield f"Not even {broken.clients if broken else 1} client is served within {within}."
    elif broken is None:
        yield f"{served.clients} clients or more are served within {within}: nothing broke so far."
    else:
        yield f"{_clients(served.clients)} served within {within}."
    if broken is not None:
        yield f"It breaks at {broken.clients} by {_by(broken)}; {_cache(broken)}."
        yield from _advice(broken)
    if check.ended:
        yield f"It ended {check.ended}{_open(check, served, broken)}."
    yield (
        f"Sent {check.spent.requests:,} requests for {check.spent.output_tokens:,} output tokens,"
        f" {check.load_s:.0f} s of load. A few requests a load are a guide, and no proof."
    )


def _clients(count: int) -> str:
    return "1 client is" if count == 1 else f"{count} clients are"


def _by(level: Level) -> str:
    name, metrics = level.binding, level.metrics
    if name == "failures" or metrics is None:
        told = f": {level.error}" if level.error else ""
        return f"failed requests ({level.sent - level.answered} of {level.sent}{told})"
    value = metrics.ttft_p90_ms if name == "ttft" else metrics.tpot_p90_ms
    return f"{TITLES[name]} (p90 {_ms(value)})"


def _cache(level: Level) -> str:
    if level.kv_cache_ratio is None:
        return "its KV cache is not known"
    waiting = f", {level.waiting} requests waiting" if level.waiting else ""
    return f"KV cache at {100 * level.kv_cache_ratio:.0f} % there{waiting}"


def _advice(level: Level) -> Iterator[str]:
    """Say what the server's own figures point to."""
    if level.kv_cache_ratio is None:
        return
    if level.kv_cache_ratio >= FULL:
        yield "The KV cache is full: more memory for it, or a smaller type (kv_cache_dtype), helps."
    elif level.waiting and level.kv_cache_ratio < ROOM:
        yield (
            f"Requests wait while the KV cache has room, {level.running} run: a limit of the server"
            " (max_num_seqs, slots) holds them back."
        )
    elif level.binding == "tpot":
        yield "All requests run: each step has become too slow; a faster model or device helps."
    elif level.binding == "ttft":
        yield "Prompts are computed too slowly beside each other: prefill limits."


def _open(check: Check, served: Level | None, broken: Level | None) -> str:
    if served is None or broken is None:
        return "; more: --requests, --seconds"
    between = broken.clients - served.clients - 1
    return f"; {between} numbers between were not tried" if between > 0 else ""


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def as_json(check: Check) -> str:
    """Return all of it for a script."""
    served, broken = serves(check.levels, check.asked.targets.share)
    content: dict[str, Any] = {
        "url": check.asked.url,
        "model": check.model,
        "engine": check.opened.endpoint.engine_title or None,
        "fingerprint": check.opened.endpoint.fingerprint,
        "api": check.opened.api,
        "way": vars(check.opened.way),
        "targets": {**check.asked.targets.limits_ms, "share": check.asked.targets.share},
        "serves": served.clients if served else 0,
        "breaks_at": broken.clients if broken else None,
        "breaks_by": broken.binding if broken else None,
        "ended": check.ended or None,
        "spent": check.spent.model_dump(),
        "levels": [
            {
                **{name: value for name, value in vars(level).items() if name != "metrics"},
                "metrics": level.metrics.model_dump(exclude_none=True) if level.metrics else None,
                "ttft_p50_without_way_ms": without_way(
                    level.metrics.ttft_p50_ms if level.metrics else None, check.opened.way
                ),
            }
            for level in check.levels
        ],
    }
    return json.dumps(content, indent=1)
