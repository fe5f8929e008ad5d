"""A tuning is paid for once what it saves is as long as what it took."""

import pytest

from servetune.analysis.tuning.answer import answer
from servetune.analysis.tuning.payback import payback_hours, saves_time
from servetune.numbers import number
from servetune.study.space import candidates
from tests.unit.tune.tunings import run, study_with


@pytest.mark.parametrize("gain", [1.05, 1.5, 3.0])
def test_after_so_many_hours_at_the_load_the_faster_server_has_saved_what_was_spent(
    gain: float,
) -> None:
    spent_s = 5400.0
    busy_s = 3600 * payback_hours(spent_s, gain)
    assert busy_s == pytest.approx(spent_s + busy_s / gain)


def test_a_proven_gain_is_told_with_when_it_is_paid_for_and_none_is_not() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    rounds, seen = run(study)
    found = answer(study.tune, of, seen, rounds)
    minutes = sum(each.server_s for each in seen) / 60
    assert found.ratio is not None
    least = minutes / 60 / (1 - 1 / found.ratio.upper)
    assert "server minutes are paid for after" in found.sentence
    assert f"[{number(least)}, " in found.sentence

    rounds, seen = run(study, capacity=lambda _: 20.0)
    assert "paid for" not in answer(study.tune, of, seen, rounds).sentence


def test_where_servers_cost_differently_or_serve_no_faster_nothing_is_told() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    rounds, seen = run(study)
    devices = {one.name: 1 + i % 2 for i, one in enumerate(of)}
    assert "paid for" not in answer(study.tune, of, seen, rounds, devices=devices).sentence
    assert "paid for" not in answer(study.tune, of, seen, rounds, counts_clients=True).sentence
    assert not saves_time(study_with(maximize=None, minimize="tpot_p99_ms", at="c8").tune)  # type: ignore[arg-type]
    assert saves_time(study_with(maximize="output_throughput_tok_s", at="c8").tune)  # type: ignore[arg-type]
