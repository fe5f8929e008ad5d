"""What a tuning says of its cost before it spends any."""

import pytest

from servetune.files import write_json
from servetune.plan.make import declare_candidates, make_plan
from servetune.plan.rounds import RoundRecord, follows_digest
from servetune.plan.times import Times
from servetune.records.paths import round_path
from servetune.records.trials import Round, Trial, TrialResult
from servetune.study.study import read_study
from servetune.study.tune import Tune
from servetune.tables import rounds
from servetune.tables.rounds import left, outlook
from tests.project import Project

TUNE = {
    "base": "bf16",
    "maximize": "output_throughput_tok_s",
    "at": "c8",
    "budget": {"server_minutes": 60, "launches": 20},
}


@pytest.mark.parametrize(
    ("space", "usd"),
    [({"tensor_parallel_size": [1, 2, 4]}, "40.00 USD"), ({"max_num_seqs": [8, 16]}, "10.00 USD")],
)
def test_an_hour_of_the_largest_candidate_is_the_most_it_costs(
    project: Project, space: dict[str, list[int]], usd: str
) -> None:
    study = project.study("h200-llama8b")
    study |= {"price_usd_per_hour": 10, "tune": {**TUNE, "space": space}}
    study["variants"] = {"bf16": {"model": "llama-8b"}}
    project.write_study(study, "h200-llama8b")
    plan = make_plan({**project.params, "study": "h200-llama8b"}, project.root)
    assert usd in "\n".join(outlook(plan, Times(), project.root))


def test_a_round_of_fewer_launches_takes_the_place_of_none_before_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the budget has room for one launch at a time."""
    study = project.study("h200-llama8b")
    study["tune"] = {**TUNE, "space": {"max_num_seqs": [8, 16, 32, 64]}}
    study["variants"] = {"bf16": {"model": "llama-8b"}}
    project.write_study(study, "h200-llama8b")
    monkeypatch.setattr(rounds, "unless_measured", lambda *_: None)
    monkeypatch.setattr(rounds, "predict_candidates", lambda *_: {})
    monkeypatch.setattr(
        rounds,
        "trial_results",
        lambda plan, before, root: [
            TrialResult(session.trial, 60.0, 100.0, 90.0, 110.0) for session in before
        ],
    )
    params = {**project.params, "study": "h200-llama8b"}
    names = ("bf16", "max_num_seqs-8", "max_num_seqs-16")
    for number, name in enumerate(names, 1):
        plan = make_plan(params, project.root)
        assert plan.tuning is not None
        record = RoundRecord(
            study=plan.study,
            declared=plan.tuning.declared,
            follows=follows_digest(plan.trials_before(number), project.root),
            round=Round(number, (Trial(name, "screen"),), "bf16"),
        )
        write_json(round_path(plan.study, number, project.root), record)
    plan = make_plan(params, project.root)
    declared = declare_candidates(plan, read_study(plan.study, project.root), project.root)
    rounds.write_round(plan, declared, (), project.root)
    kept = make_plan(params, project.root).tuning
    assert kept is not None
    assert [each.number for each in kept.rounds] == [1, 2, 3, 4]
    assert [each.trials[0].candidate for each in kept.rounds[:3]] == list(names)


def test_of_a_budget_that_the_last_launch_passed_nothing_is_left() -> None:
    tune = Tune.model_validate({**TUNE, "space": {"max_num_seqs": [4, 8]}})
    took = [TrialResult(Trial("bf16", "screen"), 60.0 * 65, 100.0, 90.0, 110.0)]
    assert left(tune, took) == (19, 0.0)
