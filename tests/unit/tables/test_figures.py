"""What a token costs, in energy and in money."""

import json
from typing import Any

import pytest

from servetune.records.measurements import MeasurementRecord, Metrics, Signals
from servetune.tables.figures import figures
from tests.unit.tables.test_timeline import record

METRICS: dict[str, Any] = {
    **{"requests": 10, "completed_requests": 10, "failed_requests": 0, "duration_s": 4.0},
    **{"input_tokens": 100, "output_tokens": 2000, "request_throughput_rps": 2.5},
    **{"output_throughput_tok_s": 500.0, "total_throughput_tok_s": 525.0},
}


def test_a_token_takes_its_share_of_the_mean_power_over_the_whole_load() -> None:
    measured = record("c1").model_copy(
        update={
            "metrics": Metrics(**METRICS),
            "signals": Signals(gpu_power_mean_w=600.0, busy_s=3.2),
        }
    )
    assert figures(measured, {}, 1, None)["energy_j_per_output_token"] == pytest.approx(
        600 * 4.0 / 2000
    )


def test_a_record_that_holds_an_energy_of_its_own_has_that_of_the_mean_power() -> None:
    old = json.loads(record("c1").model_dump_json())
    old |= {"metrics": METRICS, "signals": {"gpu_power_mean_w": 600.0, "gpu_energy_j": 1920.0}}
    measured = MeasurementRecord.model_validate(old)
    assert figures(measured, {}, 1, None)["energy_j_per_output_token"] == pytest.approx(1.2)


def test_a_server_on_two_gpus_costs_both_and_shares_its_throughput_among_them() -> None:
    measured = record("c1").model_copy(update={"metrics": Metrics(**METRICS)})
    one, two = (figures(measured, {}, devices, 3.6) for devices in (1, 2))
    # 3.60 an hour is 0.001 a second, in which 500 tokens and 2.5 requests are answered.
    assert one["cost_usd_per_million_output_tokens"] == pytest.approx(2.0)
    assert one["cost_usd_per_thousand_requests"] == pytest.approx(0.4)
    for name, value in one.items():
        if name.startswith("cost_"):
            assert value and two[name] == pytest.approx(2 * value)
    assert one["output_throughput_tok_s_per_gpu"] == 500
    assert two["output_throughput_tok_s_per_gpu"] == 250
