"""Engines side by side on their roofline, and the ceilings that count for a type."""

import pytest

from servetune.analysis.findings.busy import has_full_batch
from servetune.analysis.findings.gather import Case
from servetune.analysis.roofline.attained import Engine, attain
from servetune.models.architecture import count
from servetune.records.sessions import Ceilings
from tests.unit.analysis.architectures import LLAMA_8B
from tests.unit.models.test_work import MIXTRAL, row

H100 = Ceilings(memory_bandwidth_gb_s=3350, bf16_tflop_s=700)


@pytest.mark.parametrize("engines", [1, 2, 8])
def test_eight_engines_with_eight_times_the_requests_attain_what_one_does(engines: int) -> None:
    load = row(
        tpot_p50_ms=20.0, running_mean=128.0 * engines, concurrency=128 * engines, duration_s=10
    )
    alone = {"context_mean_tokens": 2000.0, "completed_requests": 10 * engines}
    load |= alone | {"input_tokens": 5120 * engines, "output_tokens": 2560 * engines}
    engine = Engine(LLAMA_8B, H100.of(engines), copies=engines, devices=engines)
    found = attain(load, engine)
    assert found is not None and found.is_possible
    assert found.decode.mbu == pytest.approx(0.725, abs=0.005)
    assert found.least_tpot_ms == pytest.approx(14.5, abs=0.1)
    assert found.prefill is not None and found.prefill.mfu == pytest.approx(0.515, abs=0.005)
    assert found.prefill_share == pytest.approx(0.0103, rel=0.01)


def test_engines_of_a_mixture_share_its_experts() -> None:
    model = count(MIXTRAL, [])
    of = [
        attain(row(running_mean=256.0), Engine(model, H100.of(8), copies=copies, devices=8))
        for copies in (1, 8)
    ]
    assert of[0] is not None and of[1] is not None
    spared = of[1].work.bytes - of[0].work.bytes
    assert spared == 7 * (model.linear_bytes + model.head_bytes)


def test_without_telemetry_each_engine_admits_its_own() -> None:
    load = row(running_mean=None, concurrency=64, max_num_seqs=8)
    found = attain(load, Engine(LLAMA_8B, H100.of(4), copies=4, devices=4))
    assert found is not None and found.batch == 32


def test_the_better_figure_of_eight_bits_counts_for_both() -> None:
    both = Ceilings(memory_bandwidth_gb_s=1, bf16_tflop_s=880, fp8_tflop_s=1700, int8_tflop_s=940)
    assert both.flop_s("int8") == both.flop_s("fp8") == 1700e12
    assert both.flop_s("bf16") == 880e12
    assert both.flop_s("fp4") is None, "what 4 bits can do was not measured"
    a100 = Ceilings(memory_bandwidth_gb_s=1, bf16_tflop_s=290, int8_tflop_s=500)
    assert (a100.flop_s("int8"), a100.flop_s("fp8")) == (500e12, 290e12), "it has no fp8"


def test_the_limit_of_one_engine_is_not_held_against_the_load_of_all() -> None:
    """512 requests on 8 engines that take 256 each: no batch is full, though 512 are above 256."""
    load = row(tpot_p50_ms=40.0, running_mean=500.0, running_max=512, waiting_mean=4.0)
    load |= {"concurrency": 640, "max_num_seqs": 256, "kv_cache_usage_max_ratio": 0.3}
    one = Case(load, Engine(LLAMA_8B, H100))
    several = Case(load, Engine(LLAMA_8B, H100.of(8), copies=8, devices=8))
    assert has_full_batch(one) and not has_full_batch(several)
