"""Variants against the baseline: only ok rows count, and a missing ratio says why."""

import statistics
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.comparison import compare, compare_kv_cache
from servetune.analysis.launches import SHARES
from servetune.analysis.wording import load_of
from servetune.metrics import METRIC, WITH_RATIO
from tests.report_data import make_data, make_quickstart_plan
from tests.rows import Row, rows_by


def _row(comparison: pd.DataFrame, variant: str, workload: str, point: str) -> Row:
    return rows_by(comparison, "variant", "workload", "load_point")[variant, workload, point]


def test_there_is_one_row_a_variant_workload_and_load_point_in_the_order_of_the_plan() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    comparison = compare(data.table, "bf16")
    places = list(comparison[["variant", "workload", "load_point"]].itertuples(index=False))
    points = [("text", "c1"), ("text", "c4"), ("text", "c8"), ("open", "r8"), ("guidellm", "r8")]
    variants = ["bf16", "w8a8", "fp8-kv", "eagle3"]
    assert [tuple(p) for p in places] == [(v, *p) for v in variants for p in points]
    assert set(comparison["measurements"]) == {3}


def test_values_are_geometric_means_over_repeats_and_requests_their_sum() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    row = _row(compare(data.table, "bf16"), "w8a8", "text", "c8")
    repeats = data.table.query("variant == 'w8a8' and workload == 'text' and load_point == 'c8'")
    assert row["ttft_p50_ms"] == pytest.approx(statistics.geometric_mean(repeats["ttft_p50_ms"]))
    assert row["requests"] == 128


def test_every_ratio_is_variant_over_baseline_at_the_same_load_point() -> None:
    comparison = compare(make_data().table, "bf16")
    row, base = (_row(comparison, variant, "text", "c4") for variant in ("w8a8", "bf16"))
    of_tokens = {name for name in WITH_RATIO if not METRIC[name].is_pooled}
    for metric in of_tokens - set(SHARES):
        assert row[f"{metric}_ratio"] == pytest.approx(row[metric] / base[metric])
        assert base[f"{metric}_ratio"] == 1


@pytest.mark.parametrize("status", ["failed", "invalid"])
def test_a_row_that_is_not_ok_enters_no_average(status: str) -> None:
    plan = make_quickstart_plan(repeats=2)
    session = next(s for s in plan.sessions if (s.variant, s.repeat) == ("w8a8", 2))
    second = session.measurements[0].id
    broken: dict[str, Any] = {status: {second: "it went wrong"}}
    data = make_data(plan, **broken)
    row = _row(compare(data.table, "bf16"), "w8a8", "text", "c1")
    first = data.table.query("measurement != @second and variant == 'w8a8' and repeat == 1")
    assert row["ttft_p50_ms"] == pytest.approx(first.iloc[0]["ttft_p50_ms"])
    assert (row["status"], row["ok"], row[status]) == ("partial", 1, 1)
    assert row["requests"] == 16
    assert "it went wrong" in row["reason"]


@pytest.mark.parametrize("status", ["failed", "invalid"])
def test_a_variant_without_an_ok_row_has_no_numbers_and_says_so(status: str) -> None:
    broken: dict[str, Any] = {status: {"eagle3": "the server did not start"}}
    data = make_data(**broken)
    row = _row(compare(data.table, "bf16"), "eagle3", "text", "c1")
    assert row["status"] == status
    assert pd.isna(row["output_throughput_tok_s"])
    assert pd.isna(row["output_throughput_tok_s_ratio"])
    assert row["no_ratio"] == "eagle3 has no ok measurement at this load point"


def test_a_failed_baseline_leaves_the_numbers_and_explains_the_missing_ratios() -> None:
    comparison = compare(make_data(failed={"bf16-text-c8": "died"}).table, "bf16")
    row = _row(comparison, "w8a8", "text", "c8")
    assert row["output_throughput_tok_s"] > 0
    assert pd.isna(row["output_throughput_tok_s_ratio"])
    assert row["no_ratio"] == "the baseline bf16 has no ok measurement at this load point"
    assert _row(comparison, "w8a8", "text", "c4")["output_throughput_tok_s_ratio"] > 1


def test_a_baseline_that_was_not_chosen_explains_the_missing_ratios() -> None:
    data = make_data(make_quickstart_plan(variants=["w8a8", "eagle3"]))
    comparison = compare(data.table, "bf16")
    assert comparison["output_throughput_tok_s_ratio"].isna().all()
    assert set(comparison["no_ratio"]) == {"the baseline bf16 was not measured at this load point"}


def test_a_metric_that_no_row_has_gives_no_ratio_and_no_error() -> None:
    table = make_data().table.assign(tpot_p50_ms=None)
    assert compare(table, "bf16")["tpot_p50_ms_ratio"].isna().all()


def test_a_baseline_of_zero_gives_no_ratio() -> None:
    table = make_data().table
    table.loc[table["variant"] == "bf16", "ttft_p50_ms"] = 0.0
    assert compare(table, "bf16")["ttft_p50_ms_ratio"].isna().all()


def test_a_table_read_from_parquet_compares_the_same(tmp_path: Path) -> None:
    table = make_data(failed={"w8a8-text": "died"}).table
    table.to_parquet(tmp_path / "t.parquet")
    again = pd.read_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(compare(table, "bf16"), compare(again, "bf16"), check_dtype=False)


def test_the_capacity_of_a_variant_is_compared_with_the_baselines() -> None:
    kv_caches = rows_by(compare_kv_cache(make_data().table, "bf16", {}), "variant")
    assert kv_caches["fp8-kv"]["kv_cache_tokens"] == 1_048_576
    assert kv_caches["fp8-kv"]["kv_cache_tokens_ratio"] == 2
    assert kv_caches["bf16"]["kv_cache_max_concurrency"] == 512


def test_a_data_parallel_server_has_room_in_each_of_its_engines() -> None:
    sizes = rows_by(compare_kv_cache(make_data().table, "bf16", {"fp8-kv": 2}), "variant")
    assert sizes["fp8-kv"]["kv_cache_tokens"] == 2 * 1_048_576
    assert sizes["fp8-kv"]["kv_cache_tokens_ratio"] == 4
    assert sizes["bf16"]["kv_cache_max_concurrency"] == 512


def test_a_variant_whose_server_never_came_up_has_no_capacity() -> None:
    kv_caches = compare_kv_cache(make_data(failed={"eagle3": "no"}).table, "bf16", {})
    assert pd.isna(rows_by(kv_caches, "variant")["eagle3"]["kv_cache_tokens"])


def test_a_rate_is_of_conversations_where_a_load_has_any_also_before_all_is_measured() -> None:
    table = make_data().table.assign(conversations=float("nan"))
    table.loc[(table["workload"] == "open") & (table["variant"] != "bf16"), "conversations"] = 4
    comparison = compare(table, "bf16")
    assert load_of(_row(comparison, "bf16", "open", "r8")) == "8 conversations/s"
    assert load_of(_row(comparison, "bf16", "guidellm", "r8")) == "8 requests/s"
    assert load_of(_row(comparison, "bf16", "text", "c8")) == "concurrency 8"
