"""Validity: what a measurement must keep to before its numbers enter a table.

A record keeps what was observed (`Card`); the rules are applied to it here, when it is measured and
again when tables are made, so that a changed limit measures nothing again.
"""

from servetune.records.loads import Load
from servetune.records.measurements import Card, Check, MeasurementRecord, Metrics, Probe, Status
from servetune.records.rules import RULES
from servetune.study.validity import Limits


def checks(metrics: Metrics, card: Card, limits: Limits) -> list[Check]:
    """Apply every rule, in order; one without a value or a limit is not judged."""
    found = []
    for rule in RULES:
        value = rule.value(metrics, card)
        limit = getattr(limits, rule.limit) if rule.limit else None
        is_above = value is not None and limit is not None and value > limit
        is_broken = is_above or rule.breaks(metrics, card)
        found.append(
            Check(
                rule=rule.name,
                limits=rule.limit or None,
                value=value,
                limit=limit,
                is_broken=is_broken,
                reason=rule.reason(metrics, card) if is_broken else None,
                observed=rule.observed(metrics, card),
            )
        )
    return found


OF_THE_DEAD = (
    *("failed_ratio", "preemptions_per_request", "counter_error_ratio"),
    *("missing_in_flight_ratio", "unserved_in_flight_ratio", "rate_error_ratio"),
    *("latency_below_server_ratio", "tpot_below_server_ratio"),
)
"""What cannot be judged where a replica was killed: its counters are gone, and so are requests."""


HOPELESS = 0.1
"""Share of failed requests that no one will bear, a judgement: such a load is not worth its end."""


def limits_of(limits: Limits, probe: Probe | None, load: Load) -> Limits:
    """Return the limits for a measurement.

    Failures of an overloaded probe are what it found, and those of a load that kills a replica.
    """
    if load.kill:
        return limits.model_copy(update=dict.fromkeys(OF_THE_DEAD))
    if probe is None or not probe.index:
        return limits
    return limits.model_copy(update={"failed_ratio": None, "preemptions_per_request": None})


def refusals_allowed(load: Load, requests: int, limits: Limits) -> int | None:
    """Return how many of all the requests of a load may fail for certain; None: any number.

    Whichever of them the first and the last, which are not counted, turn out to be. Fewer than
    HOPELESS are always borne: another limit may allow them without measuring again.
    """
    ratio = limits_of(limits, None, load).failed_ratio
    if ratio is None:
        return None
    most = int(max(ratio, HOPELESS) * requests)
    return most + load.settle_requests + load.cooldown_requests


def check_measurement(
    metrics: Metrics, card: Card, limits: Limits
) -> tuple[Status, str | None, str | None]:
    """Return the status of a measurement, the first rule that it breaks, and all reasons."""
    if metrics.completed_requests == 0:
        told = f": {card.first_error}" if card.first_error else ""
        ended = "; ended early" if card.given_up else ""
        return "failed", None, f"no request was answered{told}{ended}"
    broken = [check for check in checks(metrics, card, limits) if check.is_broken]
    if broken:
        return "invalid", broken[0].rule, "; ".join(str(check.reason) for check in broken)
    return "ok", None, None


def status_of(record: MeasurementRecord, limits: Limits) -> tuple[Status, str | None, str | None]:
    """Return status, rule and reason of a record by these limits, whatever it says itself."""
    if record.metrics is None:
        return record.status, record.rule, record.reason
    judged_by = limits_of(limits, record.probe, record.load)
    return check_measurement(record.metrics, record.card, judged_by)
