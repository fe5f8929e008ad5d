"""What a setting does is told by candidates that differ in it, however few they are."""

import math

import numpy as np
import pytest

from servetune.analysis.tuning.effects import Effect, effects
from servetune.records.trials import Trial, TrialResult
from servetune.study.space import Candidate, candidates
from tests.unit.tune.tunings import study_with


def told(tried: dict[tuple[int, int, str], float]) -> dict[object, Effect]:
    """Return the effects that values of candidates tell, by the value of the setting."""
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    seen = [
        TrialResult(Trial(named(of, at).name, "screen"), 60.0, v, v, v) for at, v in tried.items()
    ]
    return {each.value: each for each in effects(study.tune, of, seen)}


def named(of: list[Candidate], at: tuple[int, int, str]) -> Candidate:
    settings = ("max_num_seqs", "max_num_batched_tokens", "model")
    return next(each for each in of if tuple(each.values[s] for s in settings) == at)


def test_three_pairs_tell_the_one_setting_in_which_each_differs() -> None:
    """All else of a round may be alike, as where predictions chose it."""
    more = {2: 10.0, 8: 20.0, 16: 15.0}
    tried = {(n, 2048, "tiny"): value for n, value in more.items()}
    tried |= {(n, 2048, "small"): 1.5 * value for n, value in more.items()}
    effect = told(tried)["small"]
    assert effect.candidates == 3
    assert effect.ratio == pytest.approx(1.5)
    assert effect.lower and effect.upper and 1.3 < effect.lower < 1.48 < 1.52 < effect.upper < 1.75


def test_a_setting_that_came_with_another_has_no_effect_of_its_own() -> None:
    tried = {(4, 512, "tiny"): 10.0, (8, 512, "small"): 15.0, (8, 1024, "small"): 15.3}
    tried |= {(4, 1024, "tiny"): 10.1, (4, 2048, "tiny"): 10.2, (8, 2048, "small"): 15.1}
    found = told(tried)
    assert found["small"].ratio is None and found[8].ratio is None


def test_intervals_hold_the_truth_as_often_as_they_say_with_few_candidates() -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(200):
        tried = {
            (n, 2048, model): 20 * 1.2 ** (model == "small") * math.exp(0.02 * rng.normal()) * seqs
            for n, seqs in ((2, 0.6), (8, 1.2), (16, 0.9))
            for model in ("tiny", "small")
        }
        effect = told(tried)["small"]
        held += bool(effect.lower and effect.upper and effect.lower < 1.2 < effect.upper)
    assert held >= 185
