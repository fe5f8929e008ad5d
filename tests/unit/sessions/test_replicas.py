"""What each replica did, from counters and samples of the whole fleet."""

import pandas as pd
import pytest

from servetune.engines.counters import difference, figure_of, of_fleet
from servetune.records.fleets import FleetMetrics
from servetune.records.sessions import Slot
from servetune.sessions.allocation import GpuAllocation
from servetune.sessions.replicas import by_replica, from_gateway, met


def counters(requests: float, hits: float, usage: float) -> dict[str, float]:
    return {
        "requests_finished": requests,
        "prefix_cache_queries": 100.0 * requests,
        "prefix_cache_hits": hits,
        "kv_cache_usage_ratio": usage,
    }


def fleet_of(*replicas: tuple[float, float]) -> FleetMetrics:
    before = of_fleet([counters(1, 0, 0) for _ in replicas])
    after = of_fleet([counters(1 + requests, hits, 0) for requests, hits in replicas])
    found = by_replica(difference(before, after), pd.DataFrame(), {}, {})
    assert found is not None
    return found


def test_the_counters_of_a_fleet_add_up_and_keep_each_replicas_own() -> None:
    whole = of_fleet([counters(2, 10, 0.5), counters(3, 20, 0.25)])
    assert whole["requests_finished"] == 5 and whole["prefix_cache_hits"] == 30
    assert whole["kv_cache_usage_ratio"] == 0.5
    assert whole["replica1_requests_finished"] == 2 and whole["replica2_requests_finished"] == 3
    assert figure_of("replica2_requests_finished") == "requests_finished"


def test_hit_ratio_and_requests_are_of_each_replica() -> None:
    fleet = fleet_of((3, 150), (1, 25))
    assert [each.requests for each in fleet.replicas] == [3, 1]
    assert [each.prefix_cache_hit_ratio for each in fleet.replicas] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("requests", "ratio"), [((5, 5), 1.0), ((10, 0), 2.0), ((9, 3), 1.5), ((0, 0), None)]
)
def test_imbalance_is_the_busiest_over_an_equal_share(
    requests: tuple[int, int], ratio: float | None
) -> None:
    assert fleet_of(*((count, 0.0) for count in requests)).imbalance_ratio == ratio


def test_a_single_server_is_no_fleet() -> None:
    assert by_replica(counters(1, 0, 0), pd.DataFrame(), {}, {}) is None


def test_gauges_of_a_replica_are_over_the_samples_of_the_load() -> None:
    samples = pd.DataFrame(
        {"replica1_requests_running": [1, 3], "replica1_kv_cache_usage_ratio": [0.25, 0.75]}
    )
    grown = of_fleet([counters(1, 0, 0)])
    found = by_replica(grown, samples, {}, {})
    assert found is not None
    (replica,) = found.replicas
    assert (replica.running_mean, replica.running_max) == (2, 3)
    assert (replica.kv_cache_usage_mean_ratio, replica.kv_cache_usage_max_ratio) == (0.5, 0.75)
    assert replica.waiting_mean is None


def test_the_gateways_counters_are_of_the_load_and_its_gauges_of_its_end() -> None:
    before = {"requests_total{route=/v1/completions}": 4.0, "max_load": 9.0, "retries_total": 1.0}
    after = {"requests_total{route=/v1/completions}": 10.0, "max_load": 2.0, "retries_total": 1.0}
    found = by_replica(of_fleet([counters(6, 0, 0)]), pd.DataFrame(), before, after)
    assert found is not None
    assert found.gateway == {"max_load": 2.0, "requests_total{route=/v1/completions}": 6.0}


def slot(gpus: int, cores: str) -> GpuAllocation:
    names = [f"GPU-{i}" for i in range(gpus)]
    return GpuAllocation(
        Slot(node="n", host="h", gpus=names, indices=[*range(gpus)], cores=cores),
        shares={name: frozenset({2 * i, 2 * i + 1}) for i, name in enumerate(names)},
    )


def test_replicas_on_a_cpu_share_its_cores() -> None:
    parts = slot(0, "100000-100003").parts(2)
    assert [sorted(part.cores) for part in parts] == [[100000, 100001], [100002, 100003]]
    assert [part.environment for part in parts] == [{}, {}]


def test_more_replicas_than_cores_use_them_all() -> None:
    assert [part.cores for part in slot(0, "100000").parts(2)] == [frozenset({100000})] * 2


def test_each_replica_has_its_gpus_and_their_cores() -> None:
    parts = slot(4, "0-7").parts(2)
    assert [part.environment["CUDA_VISIBLE_DEVICES"] for part in parts] == ["0,1", "2,3"]
    assert [sorted(part.cores) for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def routed(policy: str, **counted: float) -> dict[str, object]:
    after = {name.replace("__", "{", 1) + "}": value for name, value in counted.items()}
    found = by_replica(of_fleet([counters(4, 50, 0)]), pd.DataFrame(), {}, {"up": 1.0, **after})
    return from_gateway(found, policy)


def test_decisions_of_a_prefix_policy_are_told_by_outcome() -> None:
    name = "prefix_routing_decisions_total__outcome="
    counted = {f"{name}prefix_hit": 3, f"{name}missing_tokens": 1}
    expected = {"missing_tokens": 1, "prefix_hit": 3}
    assert routed("cache_aware", **counted)["routing_outcomes"] == expected
    assert routed("round_robin", **counted) == {}
    assert routed("cache_aware") == {"routing_outcomes": {}, "routing_lookups": None}
    assert from_gateway(None, "cache_aware") == {}


def turns(*answered_by: int | None) -> pd.DataFrame:
    """Two conversations of as many turns, the second of which replica 2 alone answers."""
    count = len(answered_by)
    return pd.DataFrame(
        {
            "conversation": [0] * count + [1] * count,
            "turn": [*range(count)] * 2,
            "replica": pd.array([*answered_by, *[2] * count], dtype="Int64"),
        }
    ).sample(frac=1, random_state=0)


def test_later_turns_that_met_the_replica_of_the_turn_before_are_counted() -> None:
    assert met(turns(1, 1, 2)) == {"later_turns": 4, "met_turns": 3}
    # A turn whose answer does not say who gave it has met nobody, and neither has the next.
    assert met(turns(1, None, 1)) == {"later_turns": 2, "met_turns": 2}
    assert met(turns(1)) == {}


def test_retries_and_opened_breakers_are_those_that_the_gateway_counted() -> None:
    counted = {
        "retries_total{route=/v1/completions}": 3.0,
        "retries_total{route=/v1/chat/completions}": 1.0,
        "cb_state_transitions_total{from=closed,replica=1,to=open}": 1.0,
        "cb_state_transitions_total{from=open,replica=1,to=half_open}": 2.0,
    }
    fleet = FleetMetrics(replicas=[], gateway=counted)
    assert (fleet.retries, fleet.breakers_opened) == (4, 1)
    # What did not grow is not in the record.
    assert FleetMetrics(replicas=[], gateway={"up": 1.0}).retries == 0
    assert FleetMetrics(replicas=[]).retries is None
