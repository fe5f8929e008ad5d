"""A tuning adds sessions to the plan, round by round, and takes none away."""

from typing import Any

import pytest

from servetune.errors import UserError
from servetune.files import write_json
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.rounds import RoundRecord, follows_digest
from servetune.records.paths import round_path
from servetune.records.trials import Level, Round, Trial
from servetune.workloads.datasets import read_requests, write_dataset
from tests.project import Project

STUDY = "quickstart-capacity"
OTHER = "max_num_seqs-8"
LEVELS: tuple[Level, ...] = ("screen", "search", "confirm")


def tuned(project: Project, **settings: Any) -> Plan:
    """Plan a study that tunes for the capacity within its strict SLO."""
    study = project.study(STUDY)
    study["tune"] = {
        "base": "bf16",
        "space": {"max_num_seqs": [4, 8], "kv_cache_dtype": ["fp8"]},
        "maximize": "capacity",
        "slo": "strict",
        "budget": {"server_minutes": 60, "launches": 20},
        "confirm": {"best": 1, "repeats": 2},
        **settings,
    }
    study["variants"] = {"bf16": {"model": "tiny", "server": {"kv_cache_dtype": "fp8"}}}
    project.write_study(study, STUDY)
    return plan_of(project)


def plan_of(project: Project, **params: Any) -> Plan:
    return make_plan({**project.params, "study": STUDY, **params}, project.root)


def choose(
    project: Project, level: Level, beaten_below: float | None = None, on_others: bool = False
) -> Plan:
    """Write one more round, of the base and another candidate, as far as the plan is."""
    plan = plan_of(project)
    assert plan.tuning is not None
    number = len(plan.tuning.rounds) + 1
    record = RoundRecord(
        study=STUDY,
        declared=plan.tuning.declared,
        follows=follows_digest(plan.trials_before(number), project.root),
        round=Round(
            number,
            (Trial("bf16", level), Trial(OTHER, level)),
            "bf16",
            beaten_below,
            on_other_requests=on_others,
        ),
    )
    write_json(round_path(STUDY, number, project.root), record)
    return plan_of(project)


def test_a_round_adds_a_launch_for_each_trial_and_changes_none_before(project: Project) -> None:
    assert tuned(project).sessions == []
    screened = choose(project, "screen")
    assert [(s.variant, s.repeat) for s in screened.sessions] == [("bf16", 1), (OTHER, 1)]
    searched = choose(project, "search")
    assert searched.sessions[:2] == screened.sessions
    assert [(s.variant, s.repeat) for s in searched.sessions[2:]] == [("bf16", 2), (OTHER, 2)]
    assert searched.tuning is not None
    assert [one.name for one in searched.tuning.tried] == ["bf16", OTHER]


def test_only_confirming_launches_measure_the_workload_itself(project: Project) -> None:
    tuned(project)
    for level in LEVELS:
        plan = choose(project, level)
    searches = [session.searches[0] for session in plan.sessions if session.variant == OTHER]
    assert [search.workload for search in searches] == ["chat-screen", "chat-search", "chat"]
    screen, search, confirm = (each.settings for each in searches)
    assert screen.probes < search.probes
    assert search == confirm
    assert set(confirm.slo) == {"strict"}


def test_a_confirming_launch_is_the_same_with_a_search_before_it_and_without(
    project: Project,
) -> None:
    """A larger budget has room for searches, and what was confirmed before is found again."""
    tuned(project)
    for level in LEVELS:
        searched = choose(project, level).sessions
    round_path(STUDY, 3, project.root).unlink()
    round_path(STUDY, 2, project.root).unlink()
    confirmed = choose(project, "confirm").sessions
    assert confirmed[-1].variant == OTHER
    assert confirmed[-1].id == searched[-1].id


def test_a_winner_is_confirmed_on_requests_that_did_not_choose_it(project: Project) -> None:
    tuned(project)
    choose(project, "search")
    planned = set(plan_of(project).datasets)
    plan = choose(project, "confirm", on_others=True)
    raced, confirmed = ({s.searches[0].load.dataset} for s in (plan.sessions[0], plan.sessions[2]))
    # A bundle, or a host without the project, has both before a round asks for them.
    assert raced | confirmed == planned == set(plan.datasets)
    prompts = []
    for id in (*raced, *confirmed):
        write_dataset(plan.datasets[id], out := project.root / f"{id}.jsonl", project.root)
        prompts.append({row["prompt"] for row in read_requests(out)})
    assert not set.intersection(*prompts)


def test_what_began_to_be_confirmed_on_the_requests_of_the_race_goes_on_with_them(
    project: Project,
) -> None:
    """Such as all that was recorded before confirming launches had requests of their own."""
    tuned(project)
    choose(project, "search")
    plan = choose(project, "confirm")
    assert plan.tuning is not None and not plan.tuning.may_send_others
    assert len({s.searches[0].load.dataset for s in plan.sessions}) == len(plan.datasets) == 1


def test_variants_beside_the_base_are_compared_on_the_same_requests(project: Project) -> None:
    tuned(project)
    study = project.study(STUDY)
    study["variants"]["other"] = {"model": "tiny", "server": {"max_num_seqs": 16}}
    project.write_study(study, STUDY)
    assert len(plan_of(project).datasets) == 1


def test_what_a_search_may_end_at_is_part_of_what_it_is(project: Project) -> None:
    tuned(project)
    free = choose(project, "screen").sessions[0].searches[0]
    round_path(STUDY, 1, project.root).unlink()
    bounded = choose(project, "screen", beaten_below=10.0).sessions[0].searches[0]
    assert free.id != bounded.id
    assert bounded.beaten_below == 10


def test_rounds_of_another_declaration_are_not_of_this_tuning(project: Project) -> None:
    tuned(project)
    assert choose(project, "screen").sessions
    assert tuned(project, budget={"server_minutes": 61, "launches": 20}).sessions == []
    tuned(project)
    assert choose(project, "screen").sessions
    project.write_study({**project.study(STUDY), "price_usd_per_hour": 2.5}, STUDY)
    assert plan_of(project).sessions == []


@pytest.mark.parametrize(
    ("params", "told"),
    [({"max_num_seqs": 8}, "tries values of it"), ({"variants": ["bf16"]}, "chooses its variants")],
)
def test_params_cannot_fix_what_is_tuned(
    project: Project, params: dict[str, Any], told: str
) -> None:
    tuned(project)
    with pytest.raises(UserError, match=told):
        plan_of(project, **params)
