"""The section on replicas: what each did, what the gateway did and costs, and deaths."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from servetune.numbers import NBSP
from servetune.plan.planned import PlannedGateway
from servetune.records.fleets import Death, FleetMetrics, ReplicaMetrics
from servetune.report.answer.view import sentences
from servetune.report.measured import Measured
from servetune.report.replicas.section import section
from servetune.report.replicas.view import (
    by_gateway,
    by_hits,
    by_replica,
    costs,
    deaths,
    fleets_of,
)
from servetune.report.section import Fit
from servetune.report.table import Name, Table
from servetune.report.verdicts import method
from servetune.tables.frames import records_of
from tests.report_data import make_data, make_quickstart_plan


def replica(number: int, **values: Any) -> ReplicaMetrics:
    known = {"requests": 10, "prefix_cache_queries": 100, "prefix_cache_hits": 50}
    return ReplicaMetrics(replica=number, **{**known, "output_tokens": 10, **values})


FLEET = FleetMetrics(
    replicas=[
        replica(1, requests=30, prompt_tokens=290, prefix_cache_hits=80),
        replica(2, prompt_tokens=90),
    ],
    later_turns=20,
    met_turns=15,
    gateway={
        "prefix_routing_decisions_total{outcome=prefix_hit,policy=cache_aware}": 3,
        "prefix_routing_decisions_total{outcome=missing_tokens,policy=cache_aware}": 1,
        "retries_total{route=/v1/completions}": 7,
        "cb_state_transitions_total{from=closed,replica=1,to=open}": 1,
    },
)


def measured_with(fleet: FleetMetrics | None) -> Measured:
    """The quickstart's numbers, of which bf16 is behind a gateway and w8a8 the same directly."""
    plan = make_quickstart_plan(repeats=3)
    gateway = PlannedGateway(
        kind="vllm-router", version="0", policy="random", environment="e-0123456789ab"
    )
    sessions = [
        each.model_copy(
            update={
                "servers": f"s-r{each.repeat}" if each.variant in ("bf16", "w8a8") else None,
                "gateway": gateway if each.variant == "bf16" else None,
            }
        )
        for each in plan.sessions
    ]
    data = make_data(plan.model_copy(update={"sessions": sessions}))
    table = data.table.copy()
    behind = table["variant"] == "bf16"
    if fleet:
        table["fleet"] = [fleet.model_dump_json() if is_behind else None for is_behind in behind]
    shared = table["variant"].isin(["bf16", "w8a8"])
    table["servers"] = ("s" + table["repeat"].astype(str)).where(shared, None)
    return replace(data, table=table)


def row_of(table: Table | None) -> Mapping[str, Any]:
    assert table is not None
    return dict(zip(table.heads, table.rows[0], strict=True))


def test_hits_requests_and_imbalance_are_of_each_replica_and_the_whole() -> None:
    row = row_of(by_replica(fleets_of(measured_with(FLEET))))
    assert row["Variant"] == Name("bf16")
    assert row["Hits by replica"] == f"80{NBSP}% / 50{NBSP}%"
    assert row["Requests by replica"] == "30 / 10"
    assert row["Busiest, requests"].startswith("1.5")
    assert row["Busiest, tokens"].startswith("1.5")


def test_what_the_gateway_did_is_told() -> None:
    row = row_of(by_gateway(fleets_of(measured_with(FLEET))))
    assert "75" in row["Turns that met their prefix"] and "25" in row["Decisions by load alone"]
    assert (row["Retries"], row["Opened breakers"]) == ("7", "1")


def test_the_gateways_cost_is_a_verdict_against_the_same_servers_directly() -> None:
    table = costs(measured_with(FLEET))
    assert table is not None
    assert {(row[0], row[1]) for row in table.rows} == {(Name("bf16"), Name("w8a8"))}
    verdicts = {str(row[3]): str(row[5]) for row in table.rows}
    # The data has w8a8 a fifth faster in each token.
    assert verdicts["TPOT p50"] == "slower"


def test_without_a_direct_variant_there_is_no_cost() -> None:
    measured = measured_with(FLEET)
    alone = [each.model_copy(update={"servers": None}) for each in measured.plan.sessions]
    plan = measured.plan.model_copy(update={"sessions": alone})
    assert costs(replace(measured, plan=plan)) is None


def test_a_death_is_a_row_a_launch() -> None:
    died = Death(replica=1, at_s=4.5, in_flight=6, lost=5, not_sent=9, noticed_s=14.2)
    table = deaths(fleets_of(measured_with(FLEET.model_copy(update={"death": died}))))
    row = row_of(table)
    assert (row["Lost"], row["Turns not sent"], row["Retries"]) == ("5", "9", "7")
    assert row["Noticed, s"].startswith("14")
    assert deaths(fleets_of(measured_with(FLEET))) is None


@pytest.mark.parametrize("fleet", [FLEET, None])
def test_the_section_is_there_where_a_fleet_was_measured(fleet: FleetMetrics | None) -> None:
    made = section(measured_with(fleet))
    assert (made is not None) == (fleet is not None)
    if made:
        assert "What the gateway costs" in (made.markdown(Fit()) or "")


def test_the_page_says_that_variants_share_launches() -> None:
    measured = measured_with(FLEET)
    assert "share launches" in method(measured.plan, measured.judgement)
    alone = make_data(make_quickstart_plan(repeats=3))
    assert "share launches" not in method(alone.plan, alone.judgement)


def with_hits(*w8a8: float) -> Measured:
    """Launches in which the baseline's caches hit 0.37 to 0.39 of the tokens, and w8a8's these."""
    measured = measured_with(FLEET)
    table = measured.table.assign(requests=960)
    shared = table["servers"].notna()
    table["fleet"] = [FLEET.model_dump_json() if here else None for here in shared]
    hits = {"bf16": (0.37, 0.38, 0.39), "w8a8": w8a8}
    table["prefix_cache_hit_ratio"] = [
        hits[row["variant"]][row["repeat"] - 1] if row["variant"] in hits else None
        for row in records_of(table)
    ]
    return replace(measured, table=table)


def test_a_policy_that_hits_more_in_each_launch_is_proven_and_in_the_answer() -> None:
    measured = with_hits(0.54, 0.55, 0.57)
    row = row_of(by_hits(measured))
    assert (row["Variant"], row["Shared launches"], row["Verdict"]) == (Name("w8a8"), "3", "more")
    assert row["Difference, points"].startswith("+17.3 [+15")
    told = [words for where, words in sentences(measured) if where.startswith("Prefix-cache hits")]
    assert told and all(
        words == f"w8a8 (55{NBSP}%) hits more than bf16 (38{NBSP}%)." for words in told
    )


def test_hits_that_vary_as_much_as_they_differ_are_undecided() -> None:
    measured = with_hits(0.30, 0.60, 0.45)
    assert row_of(by_hits(measured))["Verdict"] == "undecided"
    assert not any(where.startswith("Prefix-cache hits") for where, _ in sentences(measured))


@pytest.mark.parametrize(("requests", "verdict"), [(12, "undecided"), (1200, "more")])
def test_launches_that_agree_by_rounding_prove_no_hits(requests: int, verdict: str) -> None:
    measured = with_hits(*(base + 1 / 12 for base in (0.37, 0.38, 0.39)))
    measured = replace(measured, table=measured.table.assign(requests=requests))
    assert row_of(by_hits(measured))["Verdict"] == verdict


def test_two_launches_prove_no_hits() -> None:
    measured = with_hits(0.54, 0.55, 0.57)
    measured = replace(measured, table=measured.table[measured.table["repeat"] < 3])
    assert row_of(by_hits(measured))["Verdict"] == "undecided"
