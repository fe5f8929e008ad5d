"""What vllm-router is told, and what it tells."""

import json
from pathlib import Path

import pytest

from servetune.records.fleets import FleetMetrics
from servetune.serving.gateway import Gateway
from servetune.serving.vllm_router import healthy_workers, read_page, words

WORKERS = ["http://127.0.0.1:1", "http://127.0.0.1:2"]

PAGE = """\
# TYPE vllm_router_policy_decisions_total counter
vllm_router_policy_decisions_total{policy="cache_aware",worker="http://127.0.0.1:1"} 6
vllm_router_policy_decisions_total{policy="cache_aware",worker="http://127.0.0.1:2"} 5

vllm_router_prefix_routing_decisions_total{policy="cache_aware",outcome="missing_tokens"} 4
vllm_router_prefix_routing_decisions_total{policy="kv_aware",outcome="missing_tokens"} 3
vllm_router_active_workers 2
vllm_router_generate_duration_seconds_bucket{le="0.5"} 8
vllm_router_generate_duration_seconds_sum 0.25
"""


def command(policy: str = "round_robin", events: tuple[str, ...] = (), **arguments: object) -> str:
    return " ".join(words(8000, 9000, policy, arguments, WORKERS, [*events], "it"))


def test_it_listens_on_loopback_alone_and_gets_no_key() -> None:
    text = command()
    assert "--host 127.0.0.1 --port 8000" in text
    assert "--prometheus-host 127.0.0.1 --prometheus-port 9000" in text
    assert "--api-key" not in text


def test_it_looks_for_its_workers_each_second_and_after_a_death_within_five() -> None:
    assert "--worker-startup-check-interval 1 --health-check-interval-secs 5" in command()
    assert "--health-check-interval-secs 60" in command(health_check_interval_secs=60)
    assert "--health-check-interval-secs 5" not in command(health_check_interval_secs=60)


def test_a_flag_is_given_without_a_value() -> None:
    assert "--disable-retries --worker-urls" in command(disable_retries=True)
    assert "--disable-retries" not in command(disable_retries=False)


def test_kv_events_of_each_worker_are_named() -> None:
    text = command("kv_aware", ("tcp://127.0.0.1:3", "tcp://127.0.0.1:4"))
    for worker, event in zip(WORKERS, ("tcp://127.0.0.1:3", "tcp://127.0.0.1:4"), strict=True):
        assert f"--kv-event-source {worker}={event}" in text
    assert "--kv-event-model it" in text
    assert "--kv-event" not in command()


def test_only_workers_that_it_takes_for_healthy_are_registered() -> None:
    listed = [{"url": url, "is_healthy": url.endswith("1")} for url in WORKERS]
    assert healthy_workers(json.dumps({"workers": listed})) == WORKERS[:1]


@pytest.mark.parametrize("page", ["[]", "{}", '{"workers": [{}]}', "<html>"])
def test_a_page_that_lists_no_workers_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match=r"lists no workers|Expecting value"):
        healthy_workers(page)


def test_counters_are_named_by_replica_and_buckets_left_out() -> None:
    assert read_page(PAGE, WORKERS) == {
        "policy_decisions_total{policy=cache_aware,replica=1}": 6,
        "policy_decisions_total{policy=cache_aware,replica=2}": 5,
        "prefix_routing_decisions_total{outcome=missing_tokens,policy=cache_aware}": 4,
        "prefix_routing_decisions_total{outcome=missing_tokens,policy=kv_aware}": 3,
        "active_workers": 2,
        "generate_duration_seconds_sum": 0.25,
    }


def test_pools_are_named_by_their_roles() -> None:
    told = words(8000, 9000, "round_robin", {}, WORKERS, [], "it", prefill=1)
    text = " ".join(told)
    assert f"--vllm-pd-disaggregation --prefill {WORKERS[0]} --decode {WORKERS[1]} " in text
    assert "--worker-urls" not in told


def test_outcomes_add_up_over_other_labels() -> None:
    fleet = FleetMetrics(replicas=[], gateway=read_page(PAGE, WORKERS))
    assert fleet.decisions == {"missing_tokens": 7}
    assert fleet.by_label("policy_decisions_total", "replica") == {"1": 6, "2": 5}


def test_the_last_lines_of_its_log_have_no_colours(tmp_path: Path) -> None:
    log = tmp_path / "gateway-1.log"
    log.write_text("first\n\x1b[2m2026\x1b[0m \x1b[32m INFO\x1b[0m routed\n")
    gateway = Gateway(python=Path(), policy="random", arguments={}, log=log, folder=tmp_path)
    assert gateway.log_tail(1) == ["2026  INFO routed"]
    gateway.close()
