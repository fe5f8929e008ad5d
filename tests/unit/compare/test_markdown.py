"""A pull request shows capacities and quality of both revisions, where there are any."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd

from servetune.compare.comparison import Comparison, compare_sides
from servetune.compare.markdown import capacity_table, quality_table, render_comparison
from servetune.compare.sides import Side
from servetune.numbers import number
from servetune.tables.capacity import CAPACITIES, together
from servetune.tables.frames import records_of
from servetune.tables.quality import QUALITIES
from tests.report_data import make_data, make_quickstart_plan


def side(
    capacities: list[dict[str, Any]] | None = None, quality: list[dict[str, Any]] | None = None
) -> Side:
    return Side(
        label="here",
        params={},
        study={},
        table=pd.DataFrame(),
        quantiles=pd.DataFrame(),
        sessions={},
        capacities=pd.DataFrame(capacities, columns=list(CAPACITIES)) if capacities else _NONE,
        quality=pd.DataFrame(quality, columns=list(QUALITIES)) if quality else _NONE,
    )


_NONE = pd.DataFrame()


def capacity(value: float, variant: str = "bf16", **changed: Any) -> dict[str, Any]:
    return {
        **{"search": "s", "variant": variant, "workload": "chat", "tier": "strict", "repeat": 1},
        **{"over": "rate", "ended": "found", "binding": "ttft_p99_ms", "reason": ""},
        **{"capacity": value, "lower": 0.9 * value, "upper": 1.1 * value, "confidence": 0.95},
        **{"slo": json.dumps({"ttft_p99_ms": 500}), "probes": 5, "launches": 1, "requests": 100},
        "seconds": 10,
        **changed,
    }


def answers(variant: str, **changed: Any) -> dict[str, Any]:
    return {"variant": variant, "status": "ok", "perplexity": 2.2, **changed}


def line_of(table: str | None, variant: str) -> str:
    assert table is not None
    return next(line for line in table.splitlines() if line.startswith(f"| {variant} |"))


def test_a_study_without_either_has_neither_table() -> None:
    assert capacity_table(side(), side()) is None
    assert quality_table(side(), side()) is None


def test_a_capacity_has_the_ratio_of_both_sides_with_its_interval() -> None:
    row = line_of(capacity_table(side([capacity(40)]), side([capacity(50)])), "bf16")
    assert "40.0 (36.0 to 44.0) requests/s | 50.0 (45.0 to 55.0) requests/s" in row
    assert "1.25\N{MULTIPLICATION SIGN}" in row and "1.08, 1.44" in row


def test_a_capacity_on_one_side_only_and_one_that_failed_have_no_ratio() -> None:
    broken = capacity(0, "w8a8", ended="failed", capacity=None, upper=None)
    base, here = side([capacity(40, "w8a8")]), side([capacity(50), broken])
    table = capacity_table(base, here)
    assert "| \N{EN DASH} | 50.0 (45.0 to 55.0) requests/s | \N{EN DASH} |" in line_of(
        table, "bf16"
    )
    assert line_of(table, "w8a8").rstrip(" |").endswith("\N{EN DASH}")


def test_searches_on_several_launches_are_one_capacity_as_in_the_report() -> None:
    once = side([capacity(40)])
    twice = side([capacity(45, device="a"), capacity(55, repeat=2, device="a")])
    table = capacity_table(once, twice)
    row = line_of(table, "bf16")
    assert table is not None and table.count("bf16") == 1
    joint = together(twice.capacities)["chat", "strict", "bf16"]
    assert f"40.0 (36.0 to 44.0) requests/s | {number(joint.capacity)} (" in row
    assert "requests/s over 2 launches |" in row
    assert f"{joint.capacity / 40:.2f}\N{MULTIPLICATION SIGN}" in row
    assert table == capacity_table(once, side([*records_of(twice.capacities)][::-1]))


def test_searches_that_cannot_be_taken_together_are_paired_by_their_repeat() -> None:
    bounded = capacity(60, repeat=2, ended="unbounded", upper=None)
    table = capacity_table(side([capacity(40)]), side([capacity(50), bounded]))
    assert "1.25\N{MULTIPLICATION SIGN}" in line_of(table, "bf16")
    assert "| \N{EN DASH} | at least 60.0 " in line_of(table, "bf16, repeat 2")


def test_quality_that_fails_its_bound_is_told_on_the_side_where_it_does() -> None:
    told = {"perplexity_ratio": 1.3, "perplexity_ratio_low": 1.2, "perplexity_ratio_high": 1.4}
    told |= {"top1_agreement": 0.8, "top1_agreement_low": 0.7, "top1_agreement_high": 0.9}
    here = side(quality=[answers("w8a8", verdict="fails", **told)])
    row = line_of(quality_table(side(quality=[answers("w8a8")]), here), "w8a8")
    assert row.count("perplexity 2.20") == 2
    assert "1.300" in row and row.rstrip(" |").endswith("fails")


def test_an_answer_that_was_refused_tells_why() -> None:
    refused = answers("eagle3", status="failed", reason="the server refused a document")
    row = line_of(quality_table(side(), side(quality=[refused])), "eagle3")
    assert "| \N{EN DASH} | the server refused a document |" in row


def test_throughputs_over_different_parts_of_the_loads_are_told_to_be_so() -> None:
    """An older revision measured closed loops with their ends."""

    def revision(label: str, is_uncertain: bool | None) -> Side:
        row = {"variant": "bf16", "workload": "text", "load_point": "c8", "repeat": 1}
        row |= {"status": "ok", "concurrency": 8.0, "rate_rps": None, "started_at": None}
        table = pd.DataFrame([{**row, "throughput_is_uncertain": is_uncertain}])
        return replace(side(), label=label, table=table)

    def told(base: bool | None, here: bool | None) -> str:
        sides = revision("main", base), revision("this revision", here)
        return render_comparison(Comparison(*sides, 0.03, [], _NONE, _NONE, {}, [], True))

    assert "Throughputs of main cover the ends of closed loops" in told(None, False)
    assert "cover the ends" not in told(None, None)
    assert "cover the ends" not in told(False, False)


def test_ttft_is_not_judged_at_a_load_point_where_one_side_sends_in_lockstep() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    crowded = data.table.assign(
        card=[
            json.dumps({"send_crowding": 7.0 if at == "c8" else 1.0})
            for at in data.table["load_point"]
        ]
    )
    here = replace(side(), table=crowded, quantiles=data.quantiles)
    before, distributions = (
        table.assign(measurement="before-" + table["measurement"])
        for table in (data.table.drop(columns="card"), data.quantiles)
    )
    base = replace(side(), label="main", table=before, quantiles=distributions)
    comparison = compare_sides(base, here, 0.03)
    verdicts = comparison.verdicts.set_index(["load_point", "metric"])["verdict"]
    assert set(verdicts["c8", "ttft_p50_ms"]) == {"lockstep"}
    assert "lockstep" not in {*verdicts["c4", "ttft_p50_ms"], *verdicts["c8", "tpot_p50_ms"]}
    text = render_comparison(comparison)
    assert text.count("lockstep \N{PILCROW SIGN} |") == len(data.plan.variants)
    assert "48 undecided and 4 in lockstep" in text
    assert "> \N{PILCROW SIGN} At text · c8 " in text
