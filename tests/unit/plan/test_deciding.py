"""A rule in place of a number of launches: what it may name, and what is planned by it."""

from typing import Any

import pytest

from servetune.errors import UserError
from servetune.files import write_json
from servetune.plan.deciding import describe
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.rounds import RoundRecord
from servetune.records.paths import round_path
from servetune.records.trials import Relaunch
from tests.project import TUNE, Project

NAMED = "output_throughput_tok_s@c8"
RULE: dict[str, Any] = {"least": 3, "most": 6, "decide": [NAMED, "tpot_p50_ms@r8"]}

FORM = (
    "expected a number of launches, or a rule of least, most and decide, such as"
    " repeats: {least: 3, most: 8, decide: [output_throughput_tok_s@c8]}"
)


def plan(project: Project, repeats: Any = RULE, **changed: Any) -> Plan:
    study = {**project.study(), "repeats": repeats, **changed}
    project.write_study(study)
    return make_plan(project.params, project.root)


def choose(project: Project, made: Plan, *rounds: Relaunch) -> Plan:
    """Write rounds as they are chosen; returns the plan with them."""
    assert made.deciding is not None
    for each in rounds:
        record = RoundRecord(
            study=made.study, declared=made.deciding.declared, follows="", round=each
        )
        write_json(round_path(made.study, each.number, project.root), record)
    return make_plan(project.params, project.root)


def at(made: Plan) -> dict[str, int]:
    return {session.id: session.order for session in made.sessions}


def test_launches_are_those_of_the_most_in_its_order(project: Project) -> None:
    fixed = plan(project, RULE["most"])
    made = plan(project)
    assert {session.repeat for session in made.sessions} == {1, 2, 3}
    assert made.repeats == 3
    assert made.most_sessions == len(fixed.sessions)
    grown = choose(project, made, Relaunch(1, ("bf16", "w8a8")), Relaunch(2, ("bf16", "fp8-kv")))
    later = {(s.variant, s.repeat) for s in grown.sessions if s.repeat > 3}
    assert later == {("bf16", 4), ("w8a8", 4), ("bf16", 5), ("fp8-kv", 5)}
    assert at(grown).items() <= at(fixed).items()
    assert [s.repeat for s in grown.trials_before(2)] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 2


def test_a_number_in_params_takes_the_place_of_a_rule(project: Project) -> None:
    project.write_study({**project.study(), "repeats": RULE})
    made = make_plan({**project.params, "repeats": 2}, project.root)
    assert made.deciding is None
    assert made.repeats == 2


def test_rounds_of_another_rule_are_not_taken(project: Project) -> None:
    grown = choose(project, plan(project), Relaunch(1, ("bf16", "w8a8")))
    assert grown.deciding and grown.deciding.rounds
    other = plan(project, RULE | {"most": 7})
    assert other.deciding and not other.deciding.rounds
    assert not plan(project, equivalence=0.05).sessions[-1].repeat > 3


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("output_throughput_tok_s@r8", "output_throughput_tok_s@c8"),
        ("ttft_p99_ms@c8", "ttft_p50_ms@c8"),
        ("tpot_p50_ms@c9", "tpot_p50_ms@c8"),
        ("tpot_p50_ms", "tpot_p50_ms@c8"),
    ],
)
def test_what_gets_no_verdict_cannot_be_named_and_what_can_is_listed(
    project: Project, name: str, nearest: str
) -> None:
    with pytest.raises(UserError) as told_error:
        plan(project, RULE | {"decide": [name]})
    line = str(told_error.value)
    assert f"repeats.decide: {name}: no judged metric at a load point" in line
    assert nearest in line and "\n" not in line


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        (RULE | {"least": 2}, "repeats.least"),
        (RULE | {"most": 3}, "write repeats: 3"),
        (RULE | {"most": 500}, "repeats.most: 500: expected at most 30"),
        (RULE | {"decide": []}, "repeats.decide"),
        (RULE | {"mots": 8}, "repeats.mots: unknown key"),
        ({"least": 3, "decide": ["tpot_p50_ms@c8"]}, "repeats.most: missing"),
        (RULE | {"decide": 2 * [NAMED]}, f"repeats: decide: {NAMED}: named more than once"),
        ("until decided", f'repeats: "until decided": {FORM}'),
        ([3, 8], f"repeats: [3, 8]: {FORM}"),
        (None, f"repeats: null: {FORM}"),
        (2.5, f"repeats: 2.5: {FORM}"),
        (0, "repeats: 0: "),
    ],
)
def test_a_wrong_rule_is_told_in_one_line(project: Project, repeats: Any, said: str) -> None:
    with pytest.raises(UserError) as told_error:
        plan(project, repeats)
    assert said in str(told_error.value)
    assert "\n" not in str(told_error.value)


def test_a_rule_of_a_single_variant_is_refused_as_there_is_nothing_to_decide(
    project: Project,
) -> None:
    variants = {"bf16": project.study()["variants"]["bf16"]}
    with pytest.raises(UserError) as told_error:
        plan(project, variants=variants, baseline="bf16")
    assert (
        "repeats.decide: bf16 is the only variant, so that nothing can be decided; add another,"
        " or write a number, such as repeats: 3"
    ) in str(told_error.value)


def test_what_chooses_launches_by_itself_goes_with_no_rule(project: Project) -> None:
    with pytest.raises(UserError, match="tune: it chooses its launches itself"):
        plan(project, tune=TUNE)
    variants = project.study()["variants"]
    variants["w8a8"] = {**variants["w8a8"], "repeats": 2}
    project.write_study({key: of for key, of in project.study().items() if key != "tune"})
    with pytest.raises(UserError, match=r"variants\.w8a8\.repeats"):
        plan(project, variants=variants)


def test_a_plan_tells_what_is_decided_and_what_is_left(project: Project) -> None:
    made = plan(project)
    assert describe(made.deciding) == [
        "Launches until decided: 3 to 6 of each variant, for"
        " output_throughput_tok_s@c8, tpot_p50_ms@r8"
    ]
    going = Relaunch(1, ("bf16", "w8a8"), ("fp8-kv tpot_p50_ms@r8",), ("w8a8 tpot_p50_ms@r8",))
    assert describe(choose(project, made, going).deciding)[1] == (
        "After 3 launches: decided: fp8-kv tpot_p50_ms@r8; launched again: w8a8 tpot_p50_ms@r8"
    )
    over = Relaunch(1, (), (), ("w8a8 tpot_p50_ms@r8",), ("fp8-kv tpot_p50_ms@r8",))
    assert describe(choose(project, made, over).deciding)[1] == (
        "After 3 launches: undecided after all 6: w8a8 tpot_p50_ms@r8;"
        " given up (nothing to compare, or 6 would hardly decide): fp8-kv tpot_p50_ms@r8"
    )
