"""The study of a fleet on two cores: real vLLM behind the real vllm-router."""

from pathlib import Path

import pytest
import yaml

from servetune.records.measurements import MeasurementRecord
from tests.e2e.clone import Clone, make_clone
from tests.paths import ROOT
from tests.workspace import QUIET

pytestmark = pytest.mark.e2e

STUDY = "fleet-quickstart"
POLICIES = ("round-robin", "consistent-hash", "cache-aware", "kv-aware")
TURNS = 4
REQUESTS = 64


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Clone:
    """A clone in which four policies were launched once, and one whose replicas give no tokens."""
    made = make_clone(tmp_path_factory.mktemp("fleet") / "servetune", models)
    study = yaml.safe_load((ROOT / "studies" / f"{STUDY}.yaml").read_text())
    study["models"] = {"smollm2": {"source": "tiny"}}
    study["variants"] = {
        **{name: study["variants"][name] for name in POLICIES},
        "blind": {**study["variants"]["cache-aware"], "server": {"enable_scale_out": None}},
    }
    study |= {"repeats": 1, "validity": QUIET}
    made.write_study(study, STUDY)
    made.choose(STUDY)
    print(made.measure())
    return made


def record(clone: Clone, variant: str) -> MeasurementRecord:
    (file,) = (clone.root / "results" / STUDY / "records").glob(f"{variant}-chats-*.json")
    return MeasurementRecord.model_validate_json(file.read_text())


def served(clone: Clone, variant: str) -> list[int]:
    fleet = record(clone, variant).fleet
    assert fleet is not None
    return [replica.requests or 0 for replica in fleet.replicas]


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_is_measured_on_two_replicas(measured: Clone, policy: str) -> None:
    found = record(measured, policy)
    assert found.status == "ok", found.reason
    assert sum(served(measured, policy)) == REQUESTS
    assert found.card.server_requests_ratio == 1 and found.card.prefix_cache_was_reset


def test_round_robin_shares_requests_and_a_hash_keeps_conversations(measured: Clone) -> None:
    assert served(measured, "round-robin") == [REQUESTS // 2] * 2
    assert all(count % TURNS == 0 for count in served(measured, "consistent-hash"))


def test_conversations_that_stay_on_a_replica_hit_more(measured: Clone) -> None:
    ratios = {}
    for policy in POLICIES:
        metrics = record(measured, policy).metrics
        assert metrics is not None and metrics.prefix_cache_hit_ratio is not None
        ratios[policy] = metrics.prefix_cache_hit_ratio
    assert ratios["consistent-hash"] > ratios["round-robin"]
    assert ratios["cache-aware"] > ratios["round-robin"]
    assert ratios["kv-aware"] > ratios["round-robin"]


def test_cache_aware_goes_by_prefixes(measured: Clone) -> None:
    outcomes = record(measured, "cache-aware").card.routing_outcomes
    assert outcomes is not None
    assert set(outcomes) == {"prefix_hit", "prefix_miss"} and sum(outcomes.values()) == REQUESTS


def test_the_policies_share_one_launch(measured: Clone) -> None:
    assert len({record(measured, policy).servers for policy in POLICIES}) == 1
    assert record(measured, "blind").servers is None


def test_which_replica_answered_each_turn_is_known_behind_the_gateway(measured: Clone) -> None:
    met = {}
    for policy in POLICIES:
        fleet = record(measured, policy).fleet
        assert fleet is not None and fleet.later_turns == REQUESTS * (TURNS - 1) // TURNS
        met[policy] = fleet.met_ratio
    assert met["consistent-hash"] == 1
    assert met["round-robin"] != 1


def test_a_replica_that_is_killed_in_mid_load_costs_what_is_told(measured: Clone) -> None:
    (file,) = (measured.root / "results" / STUDY / "records").glob("round-robin-death-*.json")
    found = MeasurementRecord.model_validate_json(file.read_text())
    assert found.status == "ok", found.reason
    assert found.metrics is not None and found.fleet is not None
    death = found.fleet.death
    assert death is not None and death.replica == 1
    assert death.noticed_s is not None
    # What it had in flight is lost, and later turns go to the other one.
    completed = found.metrics.completed_requests
    assert completed + death.lost + death.not_sent == REQUESTS
    assert completed > found.load.kill.after_requests if found.load.kill else False
    dead, alive = found.fleet.replicas
    assert (dead.requests or 0) < (alive.requests or 0)
    assert found.servers == record(measured, "round-robin").servers


def test_kv_aware_is_told_of_the_blocks_that_a_replica_caches(measured: Clone) -> None:
    lookups = record(measured, "kv-aware").card.routing_lookups
    # Later turns find blocks, unless two of them are sent before the first one's are published.
    assert lookups is not None and lookups["hit"] >= REQUESTS // 4


def test_without_scale_out_a_prefix_policy_is_invalid_and_says_why(measured: Clone) -> None:
    found = record(measured, "blind")
    assert (found.status, found.rule) == ("invalid", "policy-idle")
    assert found.reason is not None and "\n" not in found.reason
    assert (
        f"{REQUESTS} of {REQUESTS} decisions were by load alone ({REQUESTS} missing_tokens)"
        in found.reason
    )
    assert "add enable_scale_out: true" in found.reason
