"""Rules about replicas behind a gateway."""

from itertools import pairwise

from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.wording import proportion
from servetune.numbers import whole
from servetune.records.fleets import FleetMetrics

MOST = 1.5
"""The busiest replica has so many times an equal share."""

ENOUGH_REQUESTS = 20


@rule
def one_replica_takes_most(case: Case) -> Finding | None:
    """The gateway sends one replica much more than its share, while others wait for work."""
    if not case.has_numbers or (fleet := fleet_of(case)) is None or fleet.death:
        return None
    counts = [replica.requests or 0 for replica in fleet.replicas]
    imbalance = fleet.imbalance_ratio
    if imbalance is None or imbalance < MOST or sum(counts) < ENOUGH_REQUESTS:
        return None
    busiest = max(fleet.replicas, key=lambda replica: replica.requests or 0)
    hits = [
        (f"prefix-cache hits of replica {replica.replica}", proportion(ratio))
        for replica in fleet.replicas
        if (ratio := replica.prefix_cache_hit_ratio) is not None
    ]
    return Finding(
        title="One replica takes most of the requests.",
        evidence=(
            ("requests by replica", ", ".join(map(whole, counts))),
            ("share of the busiest", proportion(max(fleet.request_shares))),
            *([("running there", f"{busiest.running_mean:.1f}")] if busiest.running_mean else []),
            *hits,
        ),
        attempts=_attempts(_policy(case)),
        # Were the load spread, each of the busiest replica's requests had so much less beside it.
        gain=imbalance,
        chart="measurements",
    )


def _policy(case: Case) -> str | None:
    """Return the policy that the gateway was started with; None where that is not known."""
    words = case.launch.gateway_command if case.launch else None
    return next((after for word, after in pairwise(words or ()) if word == "--policy"), None)


def _attempts(policy: str | None) -> tuple[str, ...]:
    """Say what spreads the load: a policy's own settings, then other policies."""
    settings = (
        "cache_aware: lower balance_abs_threshold (64 requests in flight by default): it"
        " spreads only above that difference",
        "cache_aware: raise cache_threshold (0.3 of a prompt by default) above the share that"
        " all prompts have in common, such as a system prompt",
    )
    others = (
        ("consistent_hash", "consistent_hash, which spreads conversations by their session"),
        ("round_robin", "round_robin, which spreads requests whatever their session"),
    )
    own = settings if policy in (None, "cache_aware") else ()
    return (*own, *(text for name, text in others if name != policy))


def fleet_of(case: Case) -> FleetMetrics | None:
    """Return what the replicas of a load point did; None of a single server."""
    told = case.row.get("fleet")
    return FleetMetrics.model_validate_json(told) if isinstance(told, str) else None
