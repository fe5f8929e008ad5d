import math
import operator
from collections import Counter

import pytest

from servetune.analysis.tuning.answer import answer
from servetune.records.trials import Level, Trial, TrialResult
from servetune.study.space import candidates
from servetune.tune.outlook import look
from servetune.tune.race import next_round
from servetune.tune.verdict import judged
from tests.unit.tune.tunings import capacity_of, run, study_with


def test_the_best_is_found_and_its_gain_is_told_from_fresh_launches() -> None:
    study = study_with()
    rounds, seen = run(study)
    assert study.tune is not None
    of = candidates(study.tune, study)
    found = answer(study.tune, of, seen, rounds)
    assert rounds[-1].ended == "confirmed"
    assert found.winner is not None and found.ratio is not None
    values = next(each.values for each in of if each.name == found.winner)
    assert (values["max_num_seqs"], values["model"]) == (8, "small")
    assert found.ratio.lower < 1.5 < found.ratio.upper
    assert found.ratio.launches == study.tune.confirm.repeats
    assert "on 3 fresh launches of each" in found.sentence
    gain = next(each for each in found.effects if each.value == "small")
    assert gain.lower is not None and gain.upper is not None
    assert gain.lower < 1.25 < gain.upper


def test_what_was_screened_and_searched_is_no_part_of_the_verdict() -> None:
    study = study_with()
    _, seen = run(study)
    assert study.tune is not None
    of = candidates(study.tune, study)
    confirming = [each for each in seen if each.trial.level == "confirm"]
    of_all, of_these = ({*judged(study.tune, of, each)} for each in (seen, confirming))
    assert of_all == of_these
    assert len(of_all) == study.tune.confirm.best


def test_later_half_of_what_a_round_tries_is_near_the_best_so_far() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    values = {each.name: list(each.values.values()) for each in of}

    def changes(name: str) -> int:
        return sum(map(operator.ne, values[name], values[of[1].name]))

    tried = [of[1].name, *[name for name in values if changes(name) > 1][:15]]
    seen = [
        TrialResult(Trial(name, "screen"), 100.0, value, 0.95 * value, 1.05 * value)
        # The others far apart, so that much is not known.
        for name, value in zip(tried, (24.0, *5 * (22.0, 18.0, 23.0)), strict=True)
    ]
    for seed in range(12):
        step = next_round(study.tune, of, seen, seed, 4)
        assert {trial.level for trial in step.trials} == {"screen"}
        near = [changes(trial.candidate) <= 1 for trial in step.trials]
        assert sum(near) >= len(near) / 2


@pytest.mark.parametrize("searches", [1, 2, 14])
def test_the_best_as_measured_is_searched_though_its_neighbours_are_slow(searches: int) -> None:
    # Beside 33 screens and the 9 launches that confirm.
    study = study_with(budget={"server_minutes": 120, "launches": 42 + searches})
    assert study.tune is not None
    of = candidates(study.tune, study)
    alone = next(each.name for each in of if each.values["model"] == "tiny" and each != of[0])

    def value(name: str, is_small: bool) -> float:
        return 24.5 if name == alone else 24.0 if is_small else 12.0

    seen = [
        TrialResult(Trial(each.name, "screen"), 60.0, at, at / 1.3, at * 1.3)
        for each in of
        for at in [value(each.name, each.values["model"] == "small")]
    ]
    step = next_round(study.tune, of, seen, 0, 8)
    assert {trial.level for trial in step.trials} == {"search"}
    assert step.incumbent != alone
    assert len(step.trials) == min(searches, 4)
    assert alone in {trial.candidate for trial in step.trials}


def test_where_nothing_matters_no_winner_is_named() -> None:
    rounds, _ = run(study_with(), lambda values: 20.0)
    assert rounds[-1].ended == "none better"


@pytest.mark.parametrize("launches", [8, 14, 60])
def test_the_budget_holds_with_what_confirming_takes(launches: int) -> None:
    budget = {"server_minutes": 40, "launches": launches}
    _, seen = run(study_with(budget=budget))
    assert len(seen) <= launches
    assert sum(each.server_s for each in seen) <= 40 * 60
    assert Counter(each.trial.level for each in seen)["confirm"] > 0


def test_once_a_long_launch_was_seen_only_the_last_may_end_after_the_budget() -> None:
    study = study_with(budget={"server_minutes": 30, "launches": 60})
    _, seen = run(study, seed=3, takes_s=(60.0, 60.0, 60.0, 600.0))
    assert sum(each.server_s for each in seen[:-1]) <= 30 * 60


@pytest.mark.parametrize(
    ("start_s", "minutes"), [(170.0, 40), (170.0, 45), (170.0, 50), (20.0, 60), (20.0, 70)]
)
def test_a_budget_that_can_pay_for_it_ends_with_a_verdict(start_s: float, minutes: int) -> None:
    study = study_with(budget={"server_minutes": minutes, "launches": 20})
    took_s = (195.0, 230.0, 260.0, 280.0)
    rounds, seen = run(study, takes_s=took_s, start_s=start_s, loads_over_screen=2.1)
    assert rounds[-1].ended in ("confirmed", "none better")
    assert sum(each.server_s for each in seen[:-1]) <= 60 * minutes


@pytest.mark.parametrize(("left_min", "launched"), [(8, ["best", "base"]), (4, [])])
def test_a_base_that_is_slow_costs_no_verdict_for_which_there_is_time(
    left_min: int, launched: list[str]
) -> None:
    # Two launches of each are confirmed, and the base's take 15 minutes, the best one's 5.
    budget = {"server_minutes": 65 + left_min, "launches": 60}
    study = study_with(budget=budget, confirm={"best": 1})
    assert study.tune is not None
    of = candidates(study.tune, study)
    names = {"base": of[0].name, "best": of[1].name}

    def told(name: str, level: Level, repeat: int = 1) -> TrialResult:
        minutes, value = {"base": (15, 10.0), "best": (5, 30.0)}[name]
        trial = Trial(names[name], level, repeat)
        return TrialResult(trial, 60.0 * minutes, value, value / 1.05, value * 1.05)

    seen = [told("base", "screen"), told("best", "screen"), told("best", "search")]
    seen += [told(name, "confirm", repeat) for repeat in (1, 2) for name in names]
    step = next_round(study.tune, of, seen, 0, 6)
    # Only the last may end after the budget.
    assert [trial.candidate for trial in step.trials] == [names[name] for name in launched]


def test_at_a_load_point_no_time_is_kept_back_for_searches_that_take_longer() -> None:
    point = {"maximize": "output_throughput_tok_s", "at": "c8", "confirm": {"best": 1}}
    budget = {"server_minutes": 35, "launches": 40}
    for tune, screens in ((point, 13), ({"confirm": {"best": 1}}, 6)):
        _, seen = run(study_with(budget=budget, **tune))
        assert [each.trial.level for each in seen].count("screen") == screens


def test_a_region_in_which_nothing_starts_is_ended() -> None:
    study = study_with(
        space={"max_num_seqs": [2, 4, *range(8, 400, 8)], "model": ["tiny", "small"]}
    )
    rounds, seen = run(study, lambda v: None if v["max_num_seqs"] > 4 else capacity_of(v))
    failed = [each for each in seen if each.failure]
    assert len(failed) <= 12
    assert any("could not serve" in each.reason for each in rounds[-1].left)
    assert rounds[-1].ended == "confirmed"


def test_a_race_goes_on_from_what_was_seen_in_any_order() -> None:
    study = study_with()
    rounds, seen = run(study, seed=3)
    assert study.tune is not None
    of = candidates(study.tune, study)
    count = len(rounds[0].trials) + len(rounds[1].trials)
    again = next_round(study.tune, of, seen[:count][::-1], 3, 3)
    assert again.trials == rounds[2].trials


def test_what_needs_no_launch_costs_nothing_and_never_starts() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    refused = [
        TrialResult(Trial(each.name, "screen"), 0.0, failure="does not fit")
        for each in of
        if each.values["model"] == "small"
    ]
    first = next_round(study.tune, of, refused, 0, 1)
    assert not {trial.candidate for trial in first.trials} & {s.trial.candidate for s in refused}


def test_a_candidate_whose_ceiling_is_below_the_incumbent_leaves_untried() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    seen = [TrialResult(Trial("plain", "screen"), 100.0, 20.0, 19.0, 21.0)]
    step = next_round(study.tune, of, seen, 0, 2, at_most={"max_num_seqs-2": 12.0})
    assert "max_num_seqs-2" in {each.candidate for each in step.left}
    assert step.beaten_below is not None and math.isclose(step.beaten_below, 19, rel_tol=0.1)


def test_what_was_recorded_elsewhere_tells_what_to_try_and_no_more() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    base = TrialResult(Trial("plain", "screen"), 100.0, 20.0, 19.0, 21.0)
    best = {"model": "small", "max_num_seqs": 16, "max_num_batched_tokens": 4096}
    alike = {each.name for each in of if each.values["max_num_seqs"] == 16}
    other = next(each.name for each in of if each.values == best)
    elsewhere = [TrialResult(Trial(other, "screen"), 100.0, 40.0, 39.0, 41.0)]
    near_told = near_alone = again = 0
    for seed in range(60):
        told, alone = (
            next_round(study.tune, of, [base], seed, 2, elsewhere=known)
            for known in (elsewhere, ())
        )
        tried = {trial.candidate for trial in told.trials}
        near_told += len(tried & alike)
        near_alone += len({trial.candidate for trial in alone.trials} & alike)
        again += other in tried
    # What is near it comes first, and it is launched again before it counts.
    assert near_told > 1.5 * near_alone
    assert again > 42
    assert told.beaten_below == alone.beaten_below
    assert told.left == alone.left
    assert told.incumbent == "plain"


def test_what_is_predicted_tells_what_to_try_and_no_more() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    base = TrialResult(Trial("plain", "screen"), 100.0, 20.0, 19.0, 21.0)
    # A simulation has every server a third too fast.
    predicted = {each.name: 1.3 * (capacity_of(each.values) or 0.0) for each in of}
    best = {name for name, value in predicted.items() if value == max(predicted.values())}
    told, alone = (
        next_round(study.tune, of, [base], 0, 2, predicted=known) for known in (predicted, {})
    )
    assert {trial.candidate for trial in told.trials} >= best
    assert told.expected[min(best)] == pytest.approx(30.0, rel=0.05)
    assert told.beaten_below == alone.beaten_below
    assert told.left == alone.left
    assert told.incumbent == "plain"


def test_predictions_that_trials_contradict_count_for_nothing() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    seen = []
    for each in of[:7]:
        value = capacity_of(each.values) or 0.0
        seen.append(
            TrialResult(Trial(each.name, "screen"), 100.0, value, 0.97 * value, 1.03 * value)
        )
    wrong = {each.name: 1 / (capacity_of(each.values) or 1.0) for each in of}
    told, alone = (look(study.tune, of, seen, 0.02, [0], (), known) for known in (wrong, {}))
    assert told is not None
    assert alone is not None
    for each in of:
        assert told.mean_of(each.name) == pytest.approx(alone.mean_of(each.name), abs=0.01)


def test_a_cliff_that_predictions_do_not_know_says_nothing_of_what_is_before_it() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)
    predicted = {each.name: capacity_of({**each.values, "max_num_seqs": 8}) or 0.0 for each in of}

    over = {each.name for each in of if each.values["max_num_seqs"] == 16}

    def seen(name: str) -> TrialResult:
        value = predicted[name] * (0.4 if name in over else 1.0)
        return TrialResult(Trial(name, "screen"), 100.0, value, 0.97 * value, 1.03 * value)

    launched = [seen(name) for name in ("plain", *sorted(over))]
    outlook = look(study.tune, of, launched, 0.02, [0], (), predicted)
    assert outlook is not None
    for each in of:
        expected = predicted[each.name] * (0.4 if each.name in over else 1.0)
        assert math.exp(outlook.mean_of(each.name)) == pytest.approx(expected, rel=0.1)


def test_what_is_far_below_the_best_still_shows_where_the_best_is() -> None:
    study = study_with()
    assert study.tune is not None
    of = candidates(study.tune, study)

    def named(seqs: int, *tokens: int) -> list[str]:
        where = {each.name: each.values for each in of[1:]}
        at = [(name, each) for name, each in where.items() if each["max_num_seqs"] == seqs]
        return [name for name, each in at if each["max_num_batched_tokens"] in tokens]

    # With 2 sequences two fifths of the best, with 4 two thirds.
    values = dict.fromkeys(named(2, 512, 1024), 8.0) | dict.fromkeys(named(4, 512, 1024), 13.0)
    values |= dict.fromkeys(named(16, 512)[:1], 20.0)
    seen = [
        TrialResult(Trial(name, "screen"), 100.0, value, 0.97 * value, 1.03 * value)
        for name, value in values.items()
    ]
    outlook = look(study.tune, of, seen, 0.02, [0])
    assert outlook is not None
    slower, faster = ([outlook.mean_of(name) for name in named(seqs, 4096)] for seqs in (2, 4))
    assert min(faster) > max(slower) + 0.1


def test_what_is_left_of_the_budget_is_spent_on_a_round_of_fewer() -> None:
    # Four launches that confirm, one search, the base and one full round leave 4.
    budget = {"server_minutes": 600, "launches": 16}
    rounds, _ = run(study_with(budget=budget, confirm={"best": 1, "repeats": 2}))
    screens = [
        len(each.trials) for each in rounds if {trial.level for trial in each.trials} == {"screen"}
    ]
    assert screens == [1, 6, 4]
