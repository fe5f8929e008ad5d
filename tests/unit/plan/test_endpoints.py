"""An endpoint in a study: what is refused before anything is sent, and what identifies it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servetune.bundle.export import export_bundle
from servetune.deploy.served import served
from servetune.errors import UserError
from servetune.plan.estimate import estimate
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.times import Times
from tests.project import TUNE, Project

PROD: dict[str, Any] = {
    **{"url": "http://127.0.0.1:8000/v1", "model": "granite", "key_env": "LLM_KEY"},
    "limits": {"requests": 1000},
}

Edit = Callable[[dict[str, Any]], object]


def with_endpoint(project: Project, *edits: Edit, **more: Any) -> Project:
    """The quickstart with a variant that is an endpoint, which takes the load of ours alone."""
    study = project.study()
    study.pop("quality", None)
    study["workloads"].pop("guidellm", None)
    study["variants"]["prod"] = {"endpoint": {**PROD, **more}, "workloads": ["text"]}
    for edit in edits:
        edit(study)
    project.write_study(study)
    return project


def planned(project: Project, *edits: Edit, **more: Any) -> Plan:
    made = with_endpoint(project, *edits, **more)
    return make_plan(made.params, made.root)


def of(plan: Plan, variant: str) -> list[str]:
    return [m.id for s in plan.sessions if s.variant == variant for m in s.measurements]


CAPACITY = {"slo": {"fast": {"tpot_p90_ms": 10}}, "lowest": 1, "highest": 2, "probe_requests": 100}


def on(variant: str, **values: Any) -> Edit:
    return lambda study: study["variants"][variant].update(values)


def on_endpoint(**values: Any) -> Edit:
    return lambda study: study["variants"]["prod"]["endpoint"].update(values)


REFUSED: list[tuple[Edit, str]] = [
    (on("prod", model="tiny"), r"variants\.prod: has a model and an endpoint; leave one"),
    (on("prod", server={"max_num_seqs": 1}), r"variants\.prod\.server: is its operator's"),
    (on("prod", engine="vllm-cpu"), r"variants\.prod\.engine: is its operator's"),
    (on("prod", environment={"A": "b"}), r"variants\.prod\.environment: is its operator's"),
    (
        lambda s: s["variants"].update(none={}),
        r"variants\.none\.model: missing; expected a model, or an endpoint",
    ),
    (lambda s: s.pop("engine"), r"yaml: engine: missing"),
    (
        lambda s: s.update(quality={"corpus": "prose"}),
        r"yaml: quality.corpus: prod is an endpoint",
    ),
    (
        lambda s: s["workloads"]["text"].update(generator="vllm-bench"),
        r"workloads\.text\.generator: vllm-bench needs the checkpoint, which .* prod",
    ),
    (
        lambda s: s["workloads"].update(text={"dataset": "text", "capacity": CAPACITY}),
        r"workloads\.text\.capacity: .* prod is an endpoint; .* or allow it: search: true",
    ),
    (
        on_endpoint(limits=None),
        r"variants\.prod\.endpoint\.limits: missing: no load is sent to an endpoint without them",
    ),
    (
        on_endpoint(limits={"requests": 10}),
        r"endpoint\.limits\.requests: 10 is below the [0-9,]+ that this study sends it",
    ),
    (
        on_endpoint(dialect="openai"),
        r"workloads\.text\.ignore_eos: prod has dialect: openai, .* set ignore_eos: false",
    ),
    (on_endpoint(ca="no.pem"), r"variants\.prod\.endpoint\.ca: no\.pem: no such file"),
    (
        lambda s: s.update(tune=TUNE),
        r"tune: prod is an endpoint, whose settings are its operator's",
    ),
]


@pytest.mark.parametrize(("edit", "expected"), REFUSED, ids=[each for _, each in REFUSED])
def test_what_an_endpoint_cannot_be_asked_is_one_line(
    project: Project, edit: Edit, expected: str
) -> None:
    with pytest.raises(UserError, match=expected) as caught:
        planned(project, edit)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("url", "127.0.0.1:8000/v1", "expected an address that begins with http:// or https://"),
        ("url", "http://127.0.0.1:8000", "expected the address of the API, which ends in /v1"),
        ("url", "http://me@127.0.0.1/v1", "name the variable that holds a key in key_env"),
        ("url", "http://127.0.0.1/v1?key=abc", "expected an address alone"),
        ("metrics", ["ftp://127.0.0.1/metrics"], "expected an address that begins with http"),
        ("key_env", "SERVETUNE_API_KEY", "cannot be passed"),
        ("modle", "x", "unknown key; did you mean model"),
        ("limits", {}, "expected one of requests, output_tokens, usd"),
        ("limits", {"requests": 0}, "expected"),
        ("headers_env", {"X-Key": "not a name"}, "expected the name of a variable of your shell"),
        ("key_env", "not/a-name", "expected the name of a variable of your shell"),
        ("headers", {"X-Key": "a"}, "unknown key; did you mean headers_env"),
        ("headers_env", {"bad header": "KEY"}, "should match"),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_refused_with_its_key(
    project: Project, key: str, value: object, expected: str
) -> None:
    with pytest.raises(UserError, match=rf"variants\.prod\.endpoint\.{key}.*: .*{expected}"):
        planned(project, **{key: value})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"limits": {"usd": 1}}, "limits.usd needs a price"),
        ({"headers_env": {"Authorization": "OTHER"}}, "headers_env: Authorization is key_env's"),
        ({"headers_env": {"Host": "OTHER"}}, "headers_env: Host is set by servetune"),
    ],
)
def test_keys_of_an_endpoint_that_contradict_each_other_are_refused(
    project: Project, values: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UserError, match=rf"variants\.prod\.endpoint: .*{expected}"):
        planned(project, **values)


def test_a_plan_says_how_much_of_its_limits_it_takes(project: Project) -> None:
    plan = planned(project)
    loads = [m.load for s in plan.sessions if s.variant == "prod" for m in s.measurements]
    sent = 1 + sum((load.requests or 0) + load.warmup_requests for load in loads)
    assert estimate(plan, Times(), ()).notes == [
        f"Endpoint prod: {sent} of 1,000 requests, all launches"
    ]


def test_a_search_is_planned_where_it_is_allowed(project: Project) -> None:
    search = {"dataset": "text", "capacity": CAPACITY}
    plan = planned(project, lambda s: s["workloads"].update(text=search), search=True)
    assert [s.searches[0].workload for s in plan.sessions if s.variant == "prod"] == ["text"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "http://127.0.0.1/v1?key=planted-secret-1"),
        ("url", "http://planted-secret-1@127.0.0.1/v1"),
        ("key_env", "planted-secret-1"),
        ("headers_env", {"X-Key": "planted-secret-1"}),
        ("metrics", ["http://127.0.0.1/metrics?token=planted-secret-1"]),
        ("block", "Bearer planted-secret-1"),
    ],
)
def test_a_credential_in_the_wrong_place_is_refused_and_not_repeated(
    project: Project, key: str, value: object
) -> None:
    with pytest.raises(UserError) as caught:
        planned(project, **{key: value})
    assert "planted-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "extra_body",
    [{"api_key": "planted-secret-1"}, {"vendor": [{"auth-token": "planted-secret-1"}]}],
)
def test_a_credential_in_the_body_of_requests_is_refused(
    project: Project, extra_body: dict[str, Any]
) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["workloads"]["text"]["classes"] = {"a": {"extra_body": extra_body}}

    with pytest.raises(
        UserError, match=r"a credential would be recorded; .* headers_env"
    ) as caught:
        planned(project, edit)
    assert "planted-secret" not in str(caught.value)


def test_a_bundle_takes_no_endpoint(project: Project, tmp_path: Path) -> None:
    plan = planned(project)
    with pytest.raises(UserError, match=r"variants\.prod\.endpoint: an endpoint may not be"):
        export_bundle(plan, tmp_path / "bundle.pyz", project.root)


def test_an_endpoint_is_not_deployed(project: Project) -> None:
    with pytest.raises(UserError, match="prod: is an endpoint, which runs already"):
        served(planned(project), "prod", project.root)


def test_address_model_and_block_of_an_endpoint_identify_it_and_nothing_else(
    project: Project,
) -> None:
    first = of(planned(project), "prod")
    metrics = ["http://127.0.0.1:8000/metrics"]
    assert of(planned(project, key_env="OTHER", metrics=metrics), "prod") == first
    more = {"limits": {"requests": 999}, "headers_env": {"X-Key": "K"}, "dialect": "vllm"}
    assert of(planned(project, **more, search=True), "prod") == first
    assert of(planned(project, lambda s: s["server"].update(max_num_seqs=2)), "prod") == first
    for key, value in (("block", "2"), ("model", "other"), ("url", "http://127.0.0.1:8001/v1")):
        assert not set(of(planned(project, **{key: value}), "prod")) & set(first)


def test_an_endpoint_changes_no_identity_of_the_variants_beside_it(project: Project) -> None:
    study = project.study()
    del study["quality"]
    project.write_study(study)
    alone = of(make_plan(project.params, project.root), "bf16")
    assert of(planned(project), "bf16") == [id for id in alone if "guidellm" not in id]


def test_a_study_of_endpoints_alone_needs_neither_engine_nor_models(project: Project) -> None:
    def alone(study: dict[str, Any]) -> None:
        for key in ("engine", "models", "server", "environment"):
            study.pop(key)
        study["variants"] = {"prod": study["variants"]["prod"]}
        study.update(baseline="prod", hardware="nvidia-h200")

    plan = planned(project, alone)
    assert plan.engines == {} and plan.models == {}
    (session,) = plan.sessions
    assert (session.engine, session.model, session.gpus) == (None, None, 0)


def test_prompts_carry_a_salt_to_an_endpoint_and_to_no_server_beside_it(project: Project) -> None:
    plan = planned(project)
    salted = {s.variant: {m.load.prompt_salt for m in s.measurements} for s in plan.sessions}
    assert salted["prod"] == {True} and salted["bf16"] == {False}
