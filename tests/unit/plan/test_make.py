from collections.abc import Callable
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.file import keep_plan, read_plan
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from tests.project import Project


def plan(project: Project, **params: Any) -> Plan:
    return make_plan({**project.params, **params}, project.root)


def ids(plan: Plan) -> set[str]:
    return {measurement.id for measurement in plan.measurements}


def test_each_variant_is_one_session_that_owes_every_load_point(project: Project) -> None:
    made = plan(project)
    assert [s.variant for s in made.sessions] == ["bf16", "w8a8", "fp8-kv", "eagle3"]
    names = [(m.workload, m.load_point) for m in made.sessions[0].measurements]
    assert names == [
        ("text", "c1"),
        ("text", "c4"),
        ("text", "c8"),
        ("open", "r8"),
        ("guidellm", "r8"),
    ]


def test_the_same_declarations_give_the_same_plan(project: Project) -> None:
    assert plan(project) == plan(project)


def test_an_override_reaches_every_variant_and_makes_every_measurement_new(
    project: Project,
) -> None:
    before, after = plan(project), plan(project, max_num_seqs=2)
    assert {s.server["max_num_seqs"] for s in after.sessions} == {2}
    assert not ids(before) & ids(after)


def test_an_override_equal_to_the_studys_value_measures_nothing_new(project: Project) -> None:
    assert ids(plan(project, max_num_seqs=8)) == ids(plan(project))


def test_going_back_to_an_old_value_finds_the_old_measurements(project: Project) -> None:
    before = ids(plan(project))
    assert ids(plan(project, max_num_seqs=2)) != before
    assert ids(plan(project, max_num_seqs=None)) == before


def test_an_added_load_point_leaves_the_others_as_they_were(project: Project) -> None:
    before = plan(project)
    study = project.study()
    study["workloads"]["text"]["load_points"].append({"concurrency": 2, "requests": 8})
    project.write_study(study)
    after = plan(project)
    assert ids(before) < ids(after)
    assert len(ids(after) - ids(before)) == 4
    assert {s.id for s in before.sessions}.isdisjoint(s.id for s in after.sessions)


def rename_question(study: dict[str, Any]) -> None:
    study["question"] = "Another wording"


def rename_model(study: dict[str, Any]) -> None:
    study["models"] = {
        "small" if name == "tiny" else name: {
            key: "small" if value == "tiny" and key != "source" else value
            for key, value in source.items()
        }
        for name, source in study["models"].items()
    }
    for variant in study["variants"].values():
        variant["model"] = "small" if variant["model"] == "tiny" else variant["model"]


@pytest.mark.parametrize("edit", [rename_question, rename_model])
def test_what_cannot_change_a_number_changes_no_measurement(
    project: Project, edit: Callable[[dict[str, Any]], None]
) -> None:
    before = ids(plan(project))
    study = project.study()
    edit(study)
    project.write_study(study)
    assert ids(plan(project)) == before


def other_draft_seed(study: dict[str, Any]) -> None:
    study["models"]["tiny-eagle3"]["seed"] = 1


def test_a_changed_draft_makes_only_its_variant_new(project: Project) -> None:
    before = ids(plan(project))
    study = project.study()
    other_draft_seed(study)
    project.write_study(study)
    new = ids(plan(project)) - before
    assert new and all(id.startswith("eagle3-") for id in new)


@pytest.mark.parametrize(
    "edit",
    [
        lambda study: study.update(hardware="nvidia-h200"),
        lambda study: study["environment"].update(VLLM_CPU_KVCACHE_SPACE="2"),
        lambda study: study["datasets"]["text"].update(output_tokens=65),
        lambda study: study["models"]["tiny"].update(seed=3),
        lambda study: study["workloads"]["text"].update(sampling={"temperature": 0.5}),
    ],
)
def test_whatever_decides_the_numbers_is_in_the_identity(
    project: Project, edit: Callable[[dict[str, Any]], None]
) -> None:
    before = {id for id in ids(plan(project)) if id.startswith("bf16-text")}
    study = project.study()
    edit(study)
    project.write_study(study)
    assert not before & ids(plan(project))


def test_another_engine_lock_makes_every_measurement_new(project: Project) -> None:
    before = ids(plan(project))
    with (project.root / "workflow/envs/vllm-cpu.txt").open("a") as lock:
        lock.write("# changed\n")
    assert not before & ids(plan(project))


def run_order(plan: Plan) -> list[tuple[str, int]]:
    return [(s.variant, s.repeat) for s in sorted(plan.sessions, key=lambda s: s.order)]


def test_every_repeat_is_a_launch_of_its_own(project: Project) -> None:
    made = plan(project, repeats=2, variants=["bf16", "w8a8"])
    order = [(s.variant, s.repeat) for s in made.sessions]
    assert order == [("bf16", 1), ("w8a8", 1), ("bf16", 2), ("w8a8", 2)]
    assert len({m.id for m in made.measurements}) == len(made.measurements)


def test_two_repeats_measure_the_variants_once_there_and_once_back(project: Project) -> None:
    order = [variant for variant, _ in run_order(plan(project, repeats=4))]
    for block in (order[:8], order[8:]):
        assert sorted(block[:4]) == ["bf16", "eagle3", "fp8-kv", "w8a8"]
        assert block[4:] == block[3::-1]


def test_the_order_is_drawn_from_the_seed(project: Project) -> None:
    orders = {tuple(run_order(plan(project, repeats=2, seed=seed))) for seed in range(20)}
    assert len(orders) > 10
    assert run_order(plan(project, repeats=2)) == run_order(plan(project, repeats=2))


def test_a_part_of_the_variants_keeps_the_order_of_them_all(project: Project) -> None:
    some = run_order(plan(project, repeats=4, variants=["bf16", "fp8-kv", "eagle3"]))
    whole = run_order(plan(project, repeats=4))
    assert some == [at for at in whole if at[0] in ("bf16", "fp8-kv", "eagle3")]


def test_more_repeats_keep_the_measurements_and_continue_the_order(project: Project) -> None:
    few, many = plan(project, repeats=3), plan(project, repeats=6)
    assert ids(few) < ids(many)
    assert run_order(many)[: len(run_order(few))] == run_order(few)


def test_repeats_of_the_study_hold_until_params_say_otherwise(project: Project) -> None:
    study = project.study()
    study["repeats"] = 3
    project.write_study(study)
    assert plan(project).repeats == 3
    assert plan(project, repeats=2).repeats == 2


@pytest.mark.parametrize("declared", ["5%", 0.05, "5 %"])
def test_the_smallest_difference_of_interest_is_a_percentage_or_a_number(
    project: Project, declared: str | float
) -> None:
    before = ids(plan(project))
    study = project.study()
    study["equivalence"] = declared
    project.write_study(study)
    assert plan(project).equivalence == pytest.approx(0.05)
    assert ids(plan(project)) == before


def test_a_subset_of_variants_keeps_their_measurements(project: Project) -> None:
    some = plan(project, variants=["w8a8", "bf16"])
    assert some.variants == ["bf16", "w8a8"]
    assert ids(some) < ids(plan(project))
    assert not any("eagle3" in model for model in some.models)


def test_a_kept_plan_reads_back_as_it_was(project: Project) -> None:
    made = plan(project)
    assert read_plan(keep_plan(made, project.root), project.root) == made


def test_a_draft_that_is_a_shape_gets_dummy_weights_as_its_target_does(project: Project) -> None:
    study = project.study()
    del study["quality"]
    shapes = "studies/shapes"
    study["models"] = {
        "bytes": {"source": "path", "path": f"{shapes}/tokenizer"},
        "llama": {"source": "shape", "config": f"{shapes}/llama-3.1-8b.json", "tokenizer": "bytes"},
        "draft": {"source": "shape", "config": f"{shapes}/llama-3.1-8b-eagle3.json"},
    }
    speculative = {"method": "eagle3", "model": "draft", "num_speculative_tokens": 3}
    study["variants"] = {"bf16": {"model": "llama", "speculative": speculative}}
    project.write_study(study)
    (session,) = plan(project).sessions
    assert session.server["load_format"] == "dummy"
    assert session.speculative == {
        "draft_load_config": {"load_format": "dummy"},
        "method": "eagle3",
        "num_speculative_tokens": 3,
    }


def test_an_engine_of_a_version_is_the_same_on_every_host_and_its_arguments_are_checked(
    project: Project,
) -> None:
    study = {**project.study(), "engine": {"vllm": "0.26.0"}}
    project.write_study(study)
    assert plan(project).sessions[0].engine == "vllm-0.26.0-4f3ca66d226a"
    study["server"]["max_num_seq"] = 1
    project.write_study(study)
    with pytest.raises(UserError, match="did you mean max_num_seqs"):
        plan(project)


def test_a_variant_may_have_fewer_launches_and_workloads_than_the_others(project: Project) -> None:
    study = project.study()
    before = plan(project, repeats=3)
    study["variants"]["w8a8"] |= {"repeats": 1, "workloads": ["open"]}
    project.write_study(study)
    after = plan(project, repeats=3)
    assert [s.variant for s in after.sessions].count("w8a8") == 1
    assert [s.variant for s in after.sessions].count("bf16") == 3
    (session,) = [s for s in after.sessions if s.variant == "w8a8"]
    assert [m.workload for m in session.measurements] == ["open"]
    assert ids(after) < ids(before)


def test_a_hub_model_without_a_commit_is_planned_and_is_not_the_pinned_one(
    project: Project,
) -> None:
    study = project.study()
    pinned = {"source": "huggingface", "repo": "a/model", "revision": "0" * 40}
    unpinned = {"source": "huggingface", "repo": "a/model"}
    made = []
    for source in (pinned, unpinned):
        study["models"] = {"tiny": source}
        study["variants"] = {"bf16": {"model": "tiny"}}
        project.write_study(study)
        made.append(plan(project))
    assert ids(made[0]).isdisjoint(ids(made[1]))


def test_a_whole_number_in_the_environment_is_its_text(project: Project) -> None:
    study = project.study()
    study["environment"] = {"VLLM_CPU_KVCACHE_SPACE": 40}
    study["variants"]["bf16"]["environment"] = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": 1}
    project.write_study(study)
    as_numbers = plan(project)
    study["environment"] = {"VLLM_CPU_KVCACHE_SPACE": "40"}
    study["variants"]["bf16"]["environment"] = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    project.write_study(study)
    assert ids(plan(project)) == ids(as_numbers)
    assert as_numbers.sessions[0].environment == {
        "VLLM_CPU_KVCACHE_SPACE": "40",
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
    }


def test_the_method_of_a_draft_may_be_left_to_vllm(project: Project) -> None:
    study = project.study()
    study["variants"]["eagle3"]["speculative"] = {
        "model": "tiny-eagle3",
        "num_speculative_tokens": 4,
    }
    project.write_study(study)
    (session,) = (s for s in plan(project).sessions if s.variant == "eagle3")
    assert session.speculative == {"num_speculative_tokens": 4}
    assert session.draft is not None and session.draft.startswith("tiny-eagle3-")


def test_an_adapter_decides_the_numbers_of_its_variant_whatever_it_is_called(
    project: Project,
) -> None:
    before, study = plan(project), project.study()

    def adapted(**adapters: str) -> Plan:
        study["models"] |= {"style": {"source": "lora", "base": "tiny"}}
        study["models"] |= {"other": {"source": "lora", "base": "tiny", "seed": 1}}
        study["variants"]["bf16"] = {"model": "tiny", "adapters": adapters}
        project.write_study(study)
        return plan(project)

    made = adapted(style="style")
    (bf16, *others) = made.sessions
    assert bf16.adapters["style"] in made.models and bf16.adapters["style"] in bf16.models
    own = {m.id for m in bf16.measurements}
    assert not own & ids(before)
    assert {m.id for s in others for m in s.measurements} < ids(before)
    assert ids(adapted(style="other")) - ids(made) != set()
    assert ids(adapted()) == ids(before)


def test_classes_are_part_of_what_decides_a_number(project: Project) -> None:
    study = project.study()

    def of(**workload: Any) -> set[str]:
        study["workloads"]["text"] |= workload
        project.write_study(study)
        return {m.id for m in plan(project).measurements if m.workload == "text"}

    assert of() == of(classes={})
    mixed = of(classes={"plain": {"weight": 3}, "warm": {"extra_body": {"temperature": 1}}})
    assert not mixed & of(classes={})
    assert mixed == of(
        classes={
            "plain": {"weight": 3.0, "extra_body": {}},
            "warm": {"extra_body": {"temperature": 1}},
        }
    )
