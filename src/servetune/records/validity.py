"""Validity rules: what a measurement must keep to before its numbers enter a table.

A record keeps what was seen (`Card`); the rules are applied to it here, when it is measured and
again when tables are made, so that a changed limit measures nothing again.
"""

from servetune.records.agreement import AGREEMENT
from servetune.records.measurements import Card, Check, MeasurementRecord, Metrics, Probe, Status
from servetune.records.rule import Rule
from servetune.study.validity import Limits


def _hits(metrics: Metrics, card: Card) -> float:
    """Return the higher of the hit ratios that the server's counters and its answers tell."""
    return max(metrics.prefix_cache_hit_ratio or 0.0, card.answers_hit_ratio or 0.0)


def _excess(metrics: Metrics, card: Card) -> float | None:
    """One source can tell that the cache was warm; that it was not takes both."""
    told, implied = _hits(metrics, card), card.implied_prefix_cache_hit_ratio
    if implied is None:
        return None
    is_known = metrics.prefix_cache_hit_ratio is not None and card.answers_hit_ratio is not None
    return max(0.0, told - implied) if is_known or told > implied else None


def _advice(card: Card) -> str:
    """Say what keeps prompts that were sent before, and what to try."""
    kept = " and ".join(card.kept_tiers)
    return f", as {kept} cannot be emptied; set prompt_salt: true in the workload" if kept else ""


def _rate_error(metrics: Metrics, card: Card) -> float | None:
    offered, sent = card.offered_rate_rps, card.sent_rate_rps
    return None if not offered or sent is None else abs(sent / offered - 1)


def _share(count: int | None, of: int) -> float | None:
    return None if count is None or not of else count / of


def _other_cpu(metrics: Metrics, card: Card) -> float | None:
    """Return the higher of mean and p95; old records have the mean alone."""
    known = (card.other_cpu_ratio, card.other_cpu_p95_ratio)
    return max((ratio for ratio in known if ratio is not None), default=None)


COMPILED = "compiled-kernels"

RULES = (
    Rule(
        "failed-requests",
        "failed_ratio",
        lambda m, c: _share(m.failed_requests, m.requests),
        lambda m, c: (
            f"{m.failed_requests} of {m.requests} requests failed"
            + (f": {c.first_error}" if c.first_error else "")
        ),
    ),
    Rule(
        "warm-prefix-cache",
        "prefix_cache_excess_ratio",
        _excess,
        lambda m, c: (
            f"{_hits(m, c):.0%} of the prompt tokens came from the prefix cache, the"
            f" workload implies {c.implied_prefix_cache_hit_ratio:.0%}: the cache was warm"
            + _advice(c)
        ),
    ),
    Rule(
        "offered-rate",
        "rate_error_ratio",
        _rate_error,
        lambda m, c: (
            f"requests were sent at {c.sent_rate_rps:.3g} req/s instead of"
            f" {c.offered_rate_rps:.3g} req/s"
        ),
    ),
    Rule(
        "client-late",
        "send_delay_p99_ms",
        lambda m, c: c.send_delay_p99_ms,
        lambda m, c: f"client-bound: requests left {c.send_delay_p99_ms:.0f} ms late (p99)",
    ),
    Rule(
        "client-cpu",
        "client_cpu_ratio",
        lambda m, c: c.client_cpu_ratio,
        lambda m, c: f"client-bound: the client used {c.client_cpu_ratio:.0%} of its core",
    ),
    Rule(
        "client-starved",
        "client_wait_ratio",
        lambda m, c: c.client_wait_ratio,
        lambda m, c: (
            f"client-bound: the client waited for a core for {c.client_wait_ratio:.0%} of the time"
        ),
    ),
    Rule(
        "output-length",
        "wrong_length_ratio",
        lambda m, c: _share(c.wrong_length_requests, m.completed_requests),
        lambda m, c: (
            f"{c.wrong_length_requests} of {m.completed_requests} answers are not as long as"
            " was asked for"
        ),
    ),
    Rule(
        "preemptions",
        "preemptions_per_request",
        lambda m, c: _share(m.preemptions, m.requests),
        lambda m, c: (
            f"{m.preemptions} preemptions for {m.requests} requests: the KV cache is too small"
            " for this load"
        ),
    ),
    Rule(
        "other-processes",
        "other_cpu_ratio",
        _other_cpu,
        lambda m, c: (
            f"other processes used {_other_cpu(m, c):.0%} of the cores or more for a"
            " twentieth of the load"
        ),
    ),
    Rule(
        "other-gpu-processes",
        "other_gpu_processes",
        lambda m, c: c.other_gpu_processes,
        lambda m, c: (
            f"{c.other_gpu_processes} other process{'' if c.other_gpu_processes == 1 else 'es'}"
            " used the GPU"
        ),
    ),
    Rule(
        "other-gpu-memory",
        "other_gpu_memory_gib",
        lambda m, c: c.other_gpu_memory_gib,
        lambda m, c: (
            f"{c.other_gpu_memory_gib:.2g} GiB of GPU memory were taken and given back during the"
            " load, which the server does not do: another process used the GPU"
        ),
    ),
    Rule(
        "gpu-busy-while-idle",
        "idle_gpu_utilization_ratio",
        lambda m, c: c.idle_gpu_utilization_ratio,
        lambda m, c: (
            f"the GPU was busy for {c.idle_gpu_utilization_ratio:.0%} of the time in which the"
            " server had no request: another process used it"
        ),
    ),
    Rule(
        "throttled",
        "throttled_ratio",
        lambda m, c: c.throttled_ratio,
        lambda m, c: (
            f"the GPU's clocks were throttled for {c.throttled_ratio:.0%} of the time"
            f" ({', '.join(c.throttle_reasons)})"
        ),
    ),
    *AGREEMENT,
    # The last, so that a record of which it is the rule breaks no other.
    Rule(
        COMPILED,
        "compiled_kernels",
        lambda m, c: None if c.compiled_kernels is None else len(c.compiled_kernels),
        lambda m, c: (
            f"the server compiled {', '.join(c.compiled_kernels or [])} during the load: raise"
            " warmup_requests"
        ),
    ),
)
"""The rules, in the order in which they are told. Those without a number of their own:
`no-prefix-cache-reset` (the server refused), `counters-missing` (`/metrics` did not answer),
`counters-reset` (one fell), `usage-missing`, `other-model`, `rate-limited` (an open loop was put
off), `ended-early` (the dataset ended before `duration_s` did), `engine-restarted` and `no-drafts`
(it speculates, by its arguments)."""


def checks(metrics: Metrics, card: Card, limits: Limits) -> list[Check]:
    """Apply every rule, in order; one without a value or a limit is not judged."""
    found = []
    for name, is_broken, reason in (
        (
            "no-prefix-cache-reset",
            card.prefix_cache_was_reset is False,
            "the server refused to empty its prefix cache before the load",
        ),
        (
            "counters-missing",
            card.counters_were_read is False,
            "/metrics did not answer, so hit ratio, acceptance and preemptions are not known",
        ),
        (
            "counters-reset",
            card.counters_went_back is True,
            "a counter of the server fell during the load: it was reset, or the server restarted",
        ),
        (
            "usage-missing",
            bool(card.answers_without_usage),
            f"{card.answers_without_usage} answers state no usage, so their tokens are not known",
        ),
        (
            "other-model",
            bool(card.other_model_answers),
            f"{card.other_model_answers} answers name another model than was asked",
        ),
        (
            "rate-limited",
            card.rate_was_limited is True,
            f"the server put requests off {card.rate_limited_answers} times (429), so that the"
            " rate was not the declared one",
        ),
        (
            "ended-early",
            card.ended_early is True,
            "the dataset ended before duration_s did; give it more requests",
        ),
        (
            "engine-restarted",
            bool(card.engine_restarts),
            "the engine was started again during the load",
        ),
        (
            "no-drafts",
            card.drafted_nothing is True,
            "the variant speculates, but the server counted no draft",
        ),
    ):
        if is_broken:
            found.append(Check(rule=name, is_broken=True, reason=reason))
    for rule in RULES:
        value, limit = rule.value(metrics, card), getattr(limits, rule.limit)
        is_broken = value is not None and limit is not None and value > limit
        found.append(
            Check(
                rule=rule.name,
                limits=rule.limit,
                value=value,
                limit=limit,
                is_broken=is_broken,
                reason=rule.reason(metrics, card) if is_broken else None,
            )
        )
    return found


def limits_of(limits: Limits, probe: Probe | None) -> Limits:
    """Return the limits for a measurement: failures of an overloaded probe are what it found."""
    if probe is None or not probe.index:
        return limits
    return limits.model_copy(update={"failed_ratio": None, "preemptions_per_request": None})


def check_measurement(
    metrics: Metrics, card: Card, limits: Limits
) -> tuple[Status, str | None, str | None]:
    """Return the status of a measurement, the first rule that it breaks, and all reasons."""
    if metrics.completed_requests == 0:
        told = f": {card.first_error}" if card.first_error else ""
        return "failed", None, f"no request was answered{told}"
    broken = [check for check in checks(metrics, card, limits) if check.is_broken]
    if broken:
        return "invalid", broken[0].rule, "; ".join(str(check.reason) for check in broken)
    return "ok", None, None


def status_of(record: MeasurementRecord, limits: Limits) -> tuple[Status, str | None, str | None]:
    """Return status, rule and reason of a record by these limits, whatever it says itself."""
    if record.metrics is None:
        return record.status, record.rule, record.reason
    return check_measurement(record.metrics, record.card, limits_of(limits, record.probe))
