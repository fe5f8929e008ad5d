"""Whether a gateway that goes by prefixes did so: by its own counters, and the replicas' hits."""

from servetune.records.measurements import Card, Metrics

BY_PREFIX = "prefix_"
"""How the outcomes begin of vllm-router's decisions in which it knew the prompt's tokens."""

MISS = "miss"
MISSING = "missing_tokens"


def fallback_routing(metrics: Metrics, card: Card) -> float | None:
    """Return the share of decisions that no prefix decided; None of another policy."""
    outcomes = card.routing_outcomes
    if outcomes is None:
        return None
    if not (decisions := sum(outcomes.values())) or _found_nothing(metrics, card):
        return 1.0
    return sum(count for name, count in outcomes.items() if not _is_prefix(name)) / decisions


def routing(metrics: Metrics, card: Card) -> str | None:
    """Write the decisions by their outcome."""
    if card.routing_outcomes is None:
        return None
    found = {**card.routing_outcomes, **_lookups(card)}
    return ", ".join(f"{count} {name}" for name, count in found.items()) or "no decision"


def routing_reason(metrics: Metrics, card: Card) -> str:
    """Say why a prefix policy did not act, and what to try."""
    outcomes = card.routing_outcomes or {}
    if not outcomes:
        return "the gateway counted no decision by prefix: its policy did not act"
    if _found_nothing(metrics, card):
        return (
            f"the gateway found no cached block in {sum(_lookups(card).values())} lookups, while"
            f" the replicas' caches held {metrics.prefix_cache_hit_ratio or 0.0:.0%} of the"
            " prompt tokens: it did not know what they hold, and went by load alone"
        )
    fallbacks = {name: count for name, count in outcomes.items() if not _is_prefix(name)}
    shown = ", ".join(f"{count} {name}" for name, count in fallbacks.items())
    advice = (
        ": the replicas gave it no tokens of the prompts; add enable_scale_out: true to server"
        if fallbacks.get(MISSING, 0) > _refused(metrics, card)
        else ""
    )
    total = sum(outcomes.values())
    return f"{sum(fallbacks.values())} of {total} decisions were by load alone ({shown}){advice}"


def _refused(metrics: Metrics, card: Card) -> int:
    """Count the requests that no replica took: of these a gateway gets no tokens anyway."""
    return metrics.failed_requests if "HTTP 400" in (card.first_error or "") else 0


def _found_nothing(metrics: Metrics, card: Card) -> bool:
    lookups = _lookups(card)
    return bool(lookups and {*lookups} == {MISS} and metrics.prefix_cache_hit_ratio)


def _lookups(card: Card) -> dict[str, int]:
    return card.routing_lookups or {}


def _is_prefix(outcome: str) -> bool:
    return outcome.startswith(BY_PREFIX)
