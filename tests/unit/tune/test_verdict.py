"""The interval of an answer: by what launches show together, and what their searches say."""

import math

import pytest
from scipy import stats

from servetune.records.trials import Trial, TrialResult
from servetune.study.space import candidates
from servetune.tune.verdict import Ratio, judged
from tests.unit.tune.tunings import study_with

GAIN = 1.5


def confirmed(apart: float, half_width: float, launches: int = 2) -> Ratio:
    """Confirm a gain by launches that are so far apart, each with such an interval (logarithms)."""
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)[:2]
    seen = []
    for each, value in zip(of, (20.0, GAIN * 20.0), strict=True):
        for repeat in range(1, launches + 1):
            at = value * math.exp(apart * (repeat - (launches + 1) / 2))
            ends = at * math.exp(-half_width), at * math.exp(half_width)
            seen.append(TrialResult(Trial(each.name, "confirm", repeat), 60.0, at, *ends))
    return judged(study.tune, of, seen, launch_spread=0.0)[0]


def half_of(ratio: Ratio) -> float:
    assert ratio.value == pytest.approx(GAIN)
    return math.log(ratio.upper / ratio.lower) / 2


def test_launches_that_agree_tell_as_much_as_their_searches_together() -> None:
    assert half_of(confirmed(0.0, 0.2)) == pytest.approx(0.2, rel=1e-3)
    assert half_of(confirmed(0.0, 0.2, launches=4)) == pytest.approx(0.2 / math.sqrt(2), rel=1e-3)


def test_launches_that_differ_by_more_tell_by_students_t_what_they_show() -> None:
    deviation = 0.3 / math.sqrt(2)
    shown = float(stats.t(2).ppf(0.975)) * deviation
    assert half_of(confirmed(0.3, 0.2)) == pytest.approx(shown)


def test_a_gain_within_what_the_searches_leave_open_names_no_winner() -> None:
    assert confirmed(0.0, 0.3, launches=3).is_better
    assert not confirmed(0.0, 0.6, launches=3).is_better


def test_two_launches_of_each_prove_nothing_however_well_they_agree() -> None:
    of_two = confirmed(0.0, 0.01)
    assert of_two.lower > 1.4
    assert not of_two.is_better
