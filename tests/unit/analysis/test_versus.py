"""What a workload costs beside another: paired by launch, and proven only by launches."""

import pandas as pd
import pytest

from servetune.analysis.versus import HITS, Versus, versus

WITH, WITHOUT = ("mixed", "r5"), ("short", "r4")
NAMED = {"mixed": "short"}


def tables(
    pairs: list[tuple[float, float]], status: str = "ok"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make a launch for each pair of TTFTs of the short class, in ms: with long ones, without."""
    points, classes = [], []
    for repeat, values in enumerate(pairs, start=1):
        for (workload, point), ttft_ms in zip((WITH, WITHOUT), values, strict=True):
            id = f"{workload}-{repeat}"
            at = {"variant": "bf16", "workload": workload, "load_point": point, "repeat": repeat}
            points.append({**at, "measurement": id, "status": status, HITS: 0.5})
            for kind in (None, "short", *(["long"] if workload == "mixed" else [])):
                row = {**at, "measurement": id, "class": kind, "ttft_p50_ms": ttft_ms}
                classes.append(row)
    latencies = ("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "e2e_p50_ms")
    columns = ["variant", "workload", "load_point", "repeat", "measurement", "class", *latencies]
    return pd.DataFrame(points), pd.DataFrame(classes).reindex(columns=columns)


def ttft(pairs: list[tuple[float, float]], **more: str) -> Versus:
    found = versus(NAMED, *tables(pairs, **more), 0.03)
    (row,) = [each for each in found if each.metric == "ttft_p50_ms"]
    return row


def test_launches_that_differ_tenfold_prove_a_cost_that_is_the_same_in_each() -> None:
    row = ttft([(20.0, 10.0), (202.0, 100.0), (1990.0, 1000.0), (410.0, 204.0)])
    assert (row.kind, row.launches, row.verdict) == ("short", 4, "slower")
    assert row.ratio == pytest.approx(2.0, rel=0.01) and row.low < row.ratio < row.high


def test_a_cost_in_one_launch_alone_is_undecided() -> None:
    assert ttft([(20.0, 10.0)]).verdict == "undecided"
    assert ttft([(20.0, 10.0), (20.0, 10.1)]).verdict == "undecided"
    assert ttft([(30.0, 10.0), (10.0, 10.0), (10.5, 10.0)]).verdict == "undecided"


def test_what_costs_nothing_is_indistinguishable() -> None:
    row = ttft([(10.0, 10.0), (10.02, 10.0), (9.99, 10.0), (10.0, 10.01)])
    assert row.verdict == "indistinguishable"


def test_only_classes_that_both_have_are_compared_and_hits_have_no_verdict() -> None:
    found = versus(NAMED, *tables([(20.0, 10.0)] * 3), 0.03)
    assert {each.kind for each in found if each.metric != HITS} == {"short"}
    (hits,) = [each for each in found if each.metric == HITS]
    assert (hits.value, hits.verdict) == (0.5, None)


def test_launches_that_are_invalid_do_not_count() -> None:
    assert versus(NAMED, *tables([(20.0, 10.0)] * 3, status="invalid"), 0.03) == []


def test_without_classes_all_requests_are_compared() -> None:
    points, classes = tables([(20.0, 10.0)] * 3)
    ttfts = points["workload"].map({"mixed": 20.0, "short": 10.0})
    points = points.assign(
        ttft_p50_ms=ttfts, **dict.fromkeys(("ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms"), 1.0)
    ).assign(e2e_p50_ms=1.0)
    found = versus(NAMED, points, classes[:0], 0.03)
    assert {each.kind for each in found} == {""}
    assert next(each for each in found if each.metric == "ttft_p50_ms").verdict == "slower"
