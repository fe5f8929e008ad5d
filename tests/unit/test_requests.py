"""The definitions of the metrics, with worked numbers."""

import pandas as pd
import pytest

from servetune.load.requests import aggregate, quantiles, request_row, request_table


def answered(start_s: float, ttft_s: float, itl_s: list[float], tokens: int) -> dict[str, object]:
    return request_row(
        request=0,
        error=None,
        start_s=start_s,
        input_tokens=10,
        output_tokens=tokens,
        ttft_s=ttft_s,
        e2e_s=ttft_s + sum(itl_s),
        itl_s=itl_s,
    )


def failed(start_s: float) -> dict[str, object]:
    return request_row(0, "Internal Server Error", start_s, 10, 0, None, None, [])


def test_tpot_spreads_the_time_after_the_first_token_over_the_tokens_after_it() -> None:
    row = answered(0.0, 0.5, [0.1, 0.1], tokens=3)
    assert row["tpot_ms"] == pytest.approx(100)


def test_under_speculation_tpot_counts_tokens_while_itl_counts_chunks() -> None:
    row = answered(0.0, 0.5, [0.1, 0.1], tokens=9)
    assert row["tpot_ms"] == pytest.approx(25)
    assert row["itl_ms"] == pytest.approx([100, 100])


def test_a_single_token_has_no_tpot() -> None:
    assert answered(0.0, 0.5, [], tokens=1)["tpot_ms"] is None


def test_throughput_counts_from_the_first_request_to_the_last_token() -> None:
    table = request_table([answered(7.0, 0.5, [0.5], 2), answered(6.0, 0.5, [0.5], 2)])
    metrics = aggregate(table, {})
    assert metrics.duration_s == pytest.approx(2.0)
    assert metrics.output_throughput_tok_s == pytest.approx(2.0)
    assert metrics.request_throughput_rps == pytest.approx(1.0)
    assert metrics.total_throughput_tok_s == pytest.approx(12.0)


def test_requests_are_ordered_by_their_sending_and_start_at_zero() -> None:
    table = request_table([answered(7.0, 0.5, [], 1), answered(6.0, 0.5, [], 1)])
    assert list(table["start_s"]) == [0.0, 1.0]
    assert list(table["request"]) == [0, 1]


def test_failed_requests_are_counted_and_in_no_latency() -> None:
    table = request_table([answered(0.0, 0.2, [0.1], 2), failed(0.1)])
    metrics = aggregate(table, {})
    assert (metrics.requests, metrics.completed_requests, metrics.failed_requests) == (2, 1, 1)
    assert metrics.ttft_mean_ms == pytest.approx(200)
    assert table["error"].dropna().tolist() == ["Internal Server Error"]


def test_nothing_answered_gives_no_latency_and_no_throughput() -> None:
    metrics = aggregate(request_table([failed(0.0)]), {})
    assert metrics.ttft_p50_ms is None
    assert metrics.output_throughput_tok_s == 0
    assert quantiles(request_table([failed(0.0)])) == {}


def test_acceptance_is_what_the_servers_counters_grew_by() -> None:
    grown = {
        "drafts": 100.0,
        "draft_tokens": 300.0,
        "accepted_tokens": 150.0,
        "accepted_tokens_at_0": 90.0,
        "accepted_tokens_at_1": 40.0,
        "accepted_tokens_at_2": 20.0,
        "prefix_cache_queries": 50.0,
        "prefix_cache_hits": 5.0,
        "preemptions": 2.0,
    }
    metrics = aggregate(request_table([answered(0.0, 0.2, [0.1], 2)]), grown)
    assert metrics.acceptance_length == pytest.approx(2.5)
    assert metrics.acceptance_ratio == pytest.approx(0.5)
    assert metrics.acceptance_by_position == pytest.approx([0.9, 0.4, 0.2])
    assert metrics.prefix_cache_hit_ratio == pytest.approx(0.1)
    assert metrics.preemptions == 2


def test_the_quantiles_run_from_the_smallest_to_the_largest_latency() -> None:
    rows = [answered(float(i), 0.1 * (i + 1), [0.1], 2) for i in range(11)]
    found = quantiles(request_table(rows))["ttft_ms"]
    assert len(found) == 101
    assert found[0] == pytest.approx(100)
    assert found[50] == pytest.approx(600)
    assert found[100] == pytest.approx(1100)


def test_a_request_table_survives_parquet(tmp_path: object) -> None:
    table = request_table([answered(0.0, 0.2, [0.1], 2), failed(0.1)])
    path = f"{tmp_path}/requests.parquet"
    table.to_parquet(path, index=False)
    assert aggregate(pd.read_parquet(path), {}) == aggregate(table, {})
