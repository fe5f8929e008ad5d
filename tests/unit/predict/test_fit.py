from dataclasses import replace

import numpy as np
import pytest

from servetune.predict import loads
from servetune.predict.batching import simulate
from servetune.predict.bounds import Bounds
from servetune.predict.fit import Fitted, Observed, fit
from servetune.predict.loads import Predicting
from servetune.predict.server import Requests, Scheduler
from servetune.study.capacity import Slo

BOUNDS = Bounds(3.5e-3, 1.6e-5, 1.2e-6, 3e-8, 6e-10, graph_tokens=512)
TRUE = Fitted(1.4e-3, 1.3, 1e-5, 1.5e-3, 2e-3, 6e-5, 12e-3)


def load(concurrency: int) -> Observed:
    count = max(4, 2 * concurrency)
    requests = Requests(np.full(count, 512), np.full(count, 32), concurrency)
    unknown = Observed(requests, count, concurrency, 1, Scheduler(), 1, BOUNDS, {})
    return replace(unknown, figures=TRUE.predict(unknown))


def test_a_fit_to_two_loads_recovers_the_server_and_predicts_a_third() -> None:
    found = fit([load(1), load(48)])
    assert found.overhead_s == pytest.approx(TRUE.overhead_s, rel=0.1)
    assert found.slowness == pytest.approx(TRUE.slowness, rel=0.1)
    asked = load(16)
    predicted = found.predict(asked)
    for name in ("output_throughput_tok_s", "tpot_p50_ms", "ttft_mean_ms"):
        assert predicted[name] == pytest.approx(asked.figures[name], rel=0.1)


def test_steps_full_of_prompts_are_not_taken_for_overhead() -> None:
    """One load of a tuning's base may be all that is known of a server."""
    found = fit([load(128)])
    assert found.overhead_s < 2 * TRUE.overhead_s
    assert found.slowness == pytest.approx(TRUE.slowness, rel=0.1)


def test_a_limit_of_sequences_makes_clients_wait() -> None:
    predicting = Predicting(TRUE, load(16))
    limited = predicting.with_settings({"max_num_seqs": 4})
    assert limited.closed(16)["ttft_p50_ms"] > 3 * predicting.closed(16)["ttft_p50_ms"]


def test_the_throughput_of_a_closed_loop_is_that_of_a_longer_one() -> None:
    lengths = np.random.default_rng(0).integers(16, 240, 1000)
    varied = replace(load(16), requests=Requests(np.full(1000, 512), lengths, 16))
    predicted = Predicting(TRUE, varied).closed(250)["output_throughput_tok_s"]
    sent = Requests(np.full(16_000, 512), np.resize(lengths, 16_000), 250)
    served = simulate(Predicting(TRUE, varied).server, sent)
    longer = served.output_tokens.sum() / served.finish_s.max()
    assert predicted == pytest.approx(longer, rel=0.03)


def test_the_capacity_is_where_the_slo_is_just_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "SEARCHED", loads.ENOUGH)
    predicting = Predicting(TRUE, load(16))
    slo = Slo(ttft_p99_ms=200)
    capacity = predicting.capacity_rps(slo, 500.0)
    assert predicting.open(0.9 * capacity)["ttft_p99_ms"] < 200
    assert predicting.open(1.1 * capacity)["ttft_p99_ms"] > 200
    assert predicting.capacity_rps(slo, capacity / 2) == capacity / 2


def test_an_slo_on_itl_is_refused() -> None:
    with pytest.raises(ValueError, match="ITL"):
        Predicting(TRUE, load(1)).capacity_rps(Slo(itl_p99_ms=50), 10.0)
