"""What a launch that fails means for its candidate, and for the answer."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from servetune.analysis.tuning.answer import Answer, answer
from servetune.records.trials import Elimination, Failure, Level, Round, Trial, TrialResult
from servetune.study.space import candidates
from tests.unit.tune.tunings import capacity_of, run, study_with

BEST = "max_num_seqs-8-model-small"
SMALL = {"max_num_seqs": [4, 8], "model": ["tiny", "small"]}


def tuned(
    *failing: tuple[str, Level, int], failure: Failure = "invalid", repeats: int = 3
) -> tuple[Answer, list[Round], list[TrialResult]]:
    """Tune a space whose best is `BEST`; some launches, by name, level and repeat, fail."""
    study = study_with(space=SMALL, confirm={"best": 1, "repeats": repeats})
    assert study.tune is not None
    fails = {Trial(*each) for each in failing}
    rounds, seen = run(study, failing=lambda trial: failure if trial in fails else None)
    return answer(study.tune, candidates(study.tune, study), seen, rounds), rounds, seen


def test_a_candidate_with_an_invalid_launch_stays_in_the_race_by_its_others() -> None:
    found, rounds, _ = tuned((BEST, "search", 1))
    assert found.winner == BEST
    assert BEST not in {each.candidate for each in rounds[-1].left}


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_an_invalid_confirmation_of_the_winner_is_made_up_for(repeat: int) -> None:
    found, _, _ = tuned((BEST, "confirm", repeat))
    assert found.winner == BEST and found.ratio is not None
    assert (found.ratio.launches, found.ratio.asked) == (3, 4)
    assert "on 3 of 4 fresh launches, against 3 of plain" in found.sentence


def test_an_invalid_confirmation_of_the_base_is_told_as_well() -> None:
    found, _, _ = tuned(("plain", "confirm", 1))
    assert found.winner == BEST and found.ratio is not None
    assert (found.ratio.launches, found.ratio.base_launches) == (3, 3)
    assert "on 3 fresh launches, against 3 of 4 of plain" in found.sentence


@pytest.mark.parametrize("name", ["plain", BEST])
@pytest.mark.parametrize("repeat", [1, 2])
def test_of_two_confirming_launches_one_that_is_invalid_is_made_up_for(
    name: str, repeat: int
) -> None:
    found, rounds, seen = tuned((name, "confirm", repeat), repeats=2)
    launched = Counter(each.trial.candidate for each in seen if each.trial.level == "confirm")
    assert launched == {"plain": 2, BEST: 2} | {name: 3}
    assert found.ratio is not None
    assert (found.ratio.launches, found.ratio.base_launches) == (2, 2)
    of_base = " of plain" * (name == "plain")
    assert f"2 of 3{of_base or ' fresh launches'}" in found.sentence
    # As in a table of verdicts, two launches of each are not enough, however far apart.
    assert found.winner is None and rounds[-1].ended == "not confirmed"
    assert (
        found.sentence.startswith("Not proven: ") and "takes 3 launches of each" in found.sentence
    )


@pytest.mark.parametrize("name", ["plain", BEST])
def test_of_two_confirming_launches_two_that_are_invalid_end_the_race(name: str) -> None:
    found, rounds, seen = tuned((name, "confirm", 1), (name, "confirm", 2), repeats=2)
    assert found.winner is None and rounds[-1].ended == "not confirmed"
    assert max(each.trial.repeat for each in seen if each.trial.level == "confirm") == 2


def test_what_cannot_be_confirmed_any_more_is_not_launched_again() -> None:
    found, rounds, seen = tuned((BEST, "confirm", 1), (BEST, "confirm", 2))
    assert found.winner is None
    assert rounds[-1].ended == "not confirmed"
    assert {each.trial.repeat for each in seen if each.trial.level == "confirm"} == {1, 2}
    assert "budget" not in found.sentence


@pytest.mark.parametrize("failure", ["does not fit", "refused", "SLO unreachable", "quality"])
def test_a_candidate_that_cannot_serve_is_out_whatever_its_other_launches_reached(
    failure: Failure,
) -> None:
    found, rounds, seen = tuned((BEST, "search", 1), failure=failure)
    assert BEST in {each.candidate for each in rounds[-1].left}
    assert BEST not in {each.trial.candidate for each in seen if each.trial.level == "confirm"}
    # What it reached beats no other candidate.
    assert found.winner == "max_num_seqs-8" or found.ratio is not None
    found, _, _ = tuned((BEST, "confirm", 3), failure=failure)
    assert found.winner is None


def test_a_candidate_whose_every_launch_is_invalid_is_out() -> None:
    found, rounds, seen = tuned((BEST, "screen", 1))
    assert BEST in {each.candidate for each in rounds[-1].left}
    assert Counter(each.trial.candidate for each in seen)[BEST] == 1
    assert found.winner is not None


def test_a_base_that_cannot_be_served_is_told_and_nothing_is_confirmed() -> None:
    study = study_with(space=SMALL)
    assert study.tune is not None
    of = candidates(study.tune, study)
    rounds, seen = run(study, lambda v: None if v == of[0].values else capacity_of(v))
    assert "confirm" not in {each.trial.level for each in seen}
    found = answer(study.tune, of, seen, rounds)
    assert "plain" in found.sentence and "does not fit" in found.sentence
    assert found.labels[BEST] in found.sentence


@pytest.mark.parametrize("seed", range(5))
def test_a_value_that_only_failing_candidates_had_so_far_is_not_taken_for_their_cause(
    seed: int,
) -> None:
    lengths = [1024, *range(1_000_000, 1_600_000, 40_000)]
    space = {"max_num_seqs": [8], "kv_cache_dtype": ["auto", "fp8"], "max_model_len": lengths}
    budget = {"server_minutes": 120, "launches": 30}
    study = study_with(space=space, budget=budget, confirm={"best": 1, "repeats": 3})
    assert study.tune is not None
    of = candidates(study.tune, study)
    assert len(of) > 30

    def fits(values: Mapping[str, Any]) -> float | None:
        long = (values["max_model_len"] or 0) > 1024
        return None if long else capacity_of({"model": "tiny", "max_num_seqs": 4, **values})

    rounds, seen = run(study, fits, seed)
    assert rounds[-1].ended == "confirmed"
    values = next(one.values for one in of if one.name == rounds[-1].incumbent)
    assert (values["max_num_seqs"], values["max_model_len"]) == (8, 1024)
    assert sum(each.failure is not None for each in seen) <= 12
    ended = [each.reason for each in rounds[-1].left if "could not serve" in each.reason]
    assert len(ended) >= 15
    assert all("max_model_len" in reason for reason in ended)


def test_who_is_back_in_the_race_has_not_left_it() -> None:
    study = study_with(space=SMALL)
    assert study.tune is not None
    of = candidates(study.tune, study)
    gone, back = (Elimination(name, 2, "it is in a region") for name in ("model-small", BEST))
    rounds = [Round(2, (), "plain", left=(gone, back)), Round(3, (), "plain", left=(gone,))]
    assert answer(study.tune, of, [], rounds).left == (gone,)


def test_a_base_that_was_launched_alone_is_ahead_of_none() -> None:
    study = study_with(space=SMALL)
    assert study.tune is not None
    trial = Trial("plain", "screen")
    rounds = [
        Round(1, (trial,), incumbent="plain"),
        Round(2, (), incumbent="plain", ended="budget"),
    ]
    seen = [TrialResult(trial, 60.0, 10.0, 9.0, 11.0)]
    found = answer(study.tune, candidates(study.tune, study), seen, rounds)
    assert found.sentence == (
        "The budget ended before anything was confirmed. No candidate beside plain was launched."
    )


def test_where_every_candidate_fails_none_is_better_than_the_base() -> None:
    study = study_with(space=SMALL)
    assert study.tune is not None
    of = candidates(study.tune, study)
    rounds, seen = run(study, lambda v: capacity_of(v) if v == of[0].values else None)
    assert rounds[-1].ended == "none better"
    sentence = answer(study.tune, of, seen, rounds).sentence
    assert sentence == (
        "None that was launched beats plain: 3 failed."
        " 3 of 3 candidates beside plain were launched."
    )


def test_only_what_was_proven_is_claimed_of_a_winner() -> None:
    study = study_with(space=SMALL)
    assert study.tune is not None
    of = candidates(study.tune, study)
    rounds, seen = run(study)
    seen = [each for each in seen if each.trial.candidate in ("plain", BEST)]
    sentence = answer(study.tune, of, seen, rounds).sentence
    label = answer(study.tune, of, seen, rounds).labels[BEST]
    assert sentence.startswith(f"{label} beats plain: ")
    assert " its capacity within the SLO, on 3 fresh launches of each. " in sentence
    assert "1 of 3 candidates beside plain was launched." in sentence
    assert "the best" not in sentence


def test_of_candidates_that_were_never_launched_only_that_is_told() -> None:
    study = study_with(space=SMALL)
    assert study.tune is not None
    trial = Trial("plain", "screen")
    rounds = [Round(1, (trial,), "plain"), Round(2, (), "plain", ended="none better")]
    seen = [TrialResult(trial, 60.0, 10.0, 9.0, 11.0)]
    assert answer(study.tune, candidates(study.tune, study), seen, rounds).sentence == (
        "Each candidate beside plain is known to fail, or not to be better."
        " No candidate beside plain was launched."
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_round_in_which_all_that_was_predicted_best_died_does_not_end_the_race(seed: int) -> None:
    space = {
        "model": ["tiny", "small"],
        "kv_cache_dtype": ["auto", "fp8"],
        "max_num_seqs": [4, 8, 16],
        "max_num_batched_tokens": {"low": 512, "high": 8192, "step": "power of two"},
        "speculative": ["none", "draft"],
    }
    drafts = {"draft": {"method": "ngram", "num_speculative_tokens": 3}}
    study = study_with(
        space=space, speculative=drafts, budget={"server_minutes": 90, "launches": 30}
    )
    assert study.tune is not None
    of = candidates(study.tune, study)
    with_draft = {each.name for each in of if each.values["speculative"] == "draft"}

    def gains(values: Mapping[str, Any]) -> float:
        fewer_bits = (values["model"] == "small") + 0.2 * (values["kv_cache_dtype"] == "fp8")
        tokens = values["max_num_batched_tokens"] or 2048
        return float(20 * (1 + 0.3 * fewer_bits) * (1 + 0.02 * tokens / 1024))

    predicted = {each.name: gains(each.values) * (1 + (each.name in with_draft)) for each in of}
    rounds, seen = run(
        study,
        gains,
        seed,
        failing=lambda trial: "died under load" if trial.candidate in with_draft else None,
        predicted=predicted,
    )
    values = next(one.values for one in of if one.name == rounds[-1].incumbent)
    assert rounds[-1].ended == "confirmed" and values["model"] == "small"
    first, second = ({trial.candidate for trial in each.trials} for each in rounds[1:3])
    assert first <= with_draft and not second <= with_draft
    assert sum(each.failure is not None for each in seen) <= 12


def test_where_all_that_the_budget_could_try_failed_the_others_are_not_called_worse() -> None:
    study = study_with(budget={"server_minutes": 60, "launches": 12})
    assert study.tune is not None
    of = candidates(study.tune, study)
    rounds, seen = run(
        study, failing=lambda trial: None if trial.candidate == "plain" else "died under load"
    )
    tried = {each.trial.candidate for each in seen} - {"plain"}
    assert len({*tried, *(each.candidate for each in rounds[-1].left)}) < len(of) - 1
    assert rounds[-1].ended == "budget"
    sentence = answer(study.tune, of, seen, rounds).sentence
    assert "budget" in sentence and "all that were launched failed" in sentence
    assert f"{len(tried)} of {len(of) - 1} candidates beside plain were launched." in sentence


@pytest.mark.parametrize("seed", range(5))
def test_while_only_the_base_works_the_budget_is_spent_on_finding_another(seed: int) -> None:
    study = study_with(budget={"server_minutes": 70, "launches": 60})
    assert study.tune is not None
    of = candidates(study.tune, study)
    good = {each.name for each in of if each.values["model"] == "small"}

    def tuned(working: set[str]) -> tuple[list[Round], list[TrialResult]]:
        # Six confirming launches take 61 minutes, and less is left after the base's screen.
        return run(
            study,
            seed=seed,
            failing=lambda trial: None if trial.candidate in working else "SLO unreachable",
            takes_s=(300.0,),
            start_s=20.0,
            loads_over_screen=2.1,
        )

    rounds, seen = tuned({"plain"})
    assert {each.trial.candidate for each in seen} == {each.name for each in of}
    assert rounds[-1].ended == "none better"
    _, seen = tuned({"plain", *good})
    confirmed = {each.trial.candidate for each in seen if each.trial.level == "confirm"}
    assert "plain" in confirmed and confirmed & good
