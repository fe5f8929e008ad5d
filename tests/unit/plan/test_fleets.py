"""Replicas and a gateway in a study: what is refused before anything starts, what identifies it."""

from collections.abc import Callable
from typing import Any

import pytest

from servetune.deploy.served import served
from servetune.errors import UserError
from servetune.models.shape import UncountedError
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan, Session
from servetune.predict.other import other_of
from tests.project import TUNE, Project

Edit = Callable[[dict[str, Any]], object]


def on(variant: str, **values: Any) -> Edit:
    return lambda study: study["variants"].setdefault(variant, {"model": "tiny"}).update(values)


def gateway(policy: str = "round_robin", **arguments: Any) -> dict[str, Any]:
    return {"kind": "vllm-router", "policy": policy, "arguments": arguments}


def planned(project: Project, *edits: Edit) -> Plan:
    study = project.study()
    study.pop("quality", None)
    study["workloads"].pop("guidellm", None)
    for edit in edits:
        edit(study)
    project.write_study(study)
    return make_plan(project.params, project.root)


def session(plan: Plan, variant: str) -> Session:
    return next(each for each in plan.sessions if each.variant == variant)


def ids(plan: Plan, variant: str) -> list[str]:
    return session(plan, variant).owed


def test_a_variant_without_a_gateway_keeps_its_ids(project: Project) -> None:
    before = ids(planned(project), "bf16")
    assert ids(planned(project, on("bf16", replicas=1)), "bf16") == before


def test_replicas_policy_and_arguments_of_the_gateway_decide_the_ids(project: Project) -> None:
    plan = planned(
        project,
        on("a", replicas=2, gateway=gateway()),
        on("b", replicas=3, gateway=gateway()),
        on("c", replicas=2, gateway=gateway("cache_aware")),
        on("d", replicas=2, gateway=gateway("cache_aware", cache_threshold=0.5)),
    )
    digests = {ids(plan, name)[0].rsplit("-", 1)[1] for name in ("a", "b", "c", "d", "bf16")}
    assert len(digests) == 5


def test_a_fleet_takes_the_gpus_of_all_its_replicas(project: Project) -> None:
    plan = planned(
        project,
        lambda study: study.update(hardware="nvidia-h200"),
        on("two", replicas=2, gateway=gateway(), server={"tensor_parallel_size": 2}),
    )
    assert session(plan, "two").gpus == 4 and session(plan, "bf16").gpus == 1
    assert plan.devices["two"] == 4


def test_a_fleet_needs_the_environment_of_its_gateway(project: Project) -> None:
    plan = planned(project, on("two", replicas=2, gateway=gateway()))
    assert session(plan, "two").tools == ["vllm-router"]
    assert session(plan, "bf16").tools == []


def test_a_fleet_is_not_predicted_as_if_it_were_one_server(project: Project) -> None:
    two = session(planned(project, on("two", replicas=2, gateway=gateway())), "two")
    with pytest.raises(UncountedError, match="replicas behind a gateway are not simulated"):
        other_of(two, {}, {})


def test_a_fleet_is_not_deployed_as_if_it_were_one_server(project: Project) -> None:
    plan = planned(project, on("two", replicas=2, gateway=gateway()))
    with pytest.raises(UserError, match="two: has a gateway before its replicas, which deploy"):
        served(plan, "two", project.root)


TUNE_TWO = {**TUNE, "base": "two"}

KILLING = {"concurrency": 1, "requests": 8, "kill": {"replica": 2, "after_requests": 4}}

TWO = on("two", replicas=2, gateway=gateway())


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([on("two", replicas=2)], r"variants\.two\.replicas: 2 servers need a gateway; add"),
        (
            [on("two", replicas=2, gateway=gateway("round_robbin"))],
            r"variants\.two\.gateway\.policy: .*round_robin",
        ),
        (
            [on("two", replicas=2, gateway=gateway(cache_treshold=0.5))],
            r"gateway\.arguments\.cache_treshold: .*cache_threshold",
        ),
        ([TWO, on("two", neighbours="all")], r"variants\.two\.neighbours: replicas share"),
        (
            [
                on("two", replicas=2, gateway=gateway("kv_aware")),
                on("two", server={"kv_events_config": "{}"}),
            ],
            r"variants\.two\.server\.kv_events_config: is set for kv_aware",
        ),
        ([TWO, lambda study: study.update(tune=TUNE_TWO)], r"tune\.base: two has a gateway"),
        (
            [TWO, lambda study: study["workloads"]["text"]["load_points"].append(KILLING)],
            r"workloads\.text\.load_points\.\d\.kill: variants\.bf16 has no replica 2 beside",
        ),
        (
            [
                lambda study: study["models"].update(gguf={"source": "gguf", "base": "tiny"}),
                on("two", model="gguf", engine="llama-cpp", replicas=2, gateway=gateway()),
            ],
            r"variants\.two\.gateway: is known to work before vllm serve, not before llama",
        ),
        (
            [
                lambda study: study["variants"].update(
                    two={
                        "endpoint": {"url": "http://h/v1", "model": "m"},
                        "replicas": 2,
                        "workloads": ["text"],
                    }
                )
            ],
            r"variants\.two\.replicas: is its operator's",
        ),
    ],
)
def test_what_a_fleet_cannot_be_is_one_line(
    project: Project, edits: list[Edit], expected: str
) -> None:
    with pytest.raises(UserError, match=expected) as caught:
        planned(project, *edits)
    assert "\n" not in str(caught.value)


def command(**keys: Any) -> dict[str, Any]:
    return {"command": ["smg", "launch", "--port", "{port}"], "lock": "smg", **keys}


def test_a_command_its_variables_and_its_lock_decide_the_ids_of_its_gateway(
    project: Project,
) -> None:
    def digests() -> list[str]:
        plan = planned(
            project,
            on("a", gateway=command()),
            on("b", gateway=command(command=["smg", "launch", "--port={port}"])),
            on("c", gateway=command(environment={"THRESHOLD": "0.9"})),
            # When it is ready, and what its page tells, change no number.
            on("d", gateway=command(ready="/workers", names_replicas=True, metrics="/metrics")),
        )
        return [ids(plan, name)[0].rsplit("-", 1)[1] for name in ("a", "b", "c", "d", "bf16")]

    a, b, c, d, bf16 = digests()
    assert len({a, b, c, bf16}) == 4 and d == a
    lock = project.root / "workflow/envs/smg.txt"
    lock.write_text(lock.read_text() + "# another\n")
    assert digests()[0] != a and digests()[-1] == bf16


def test_a_program_of_the_host_is_identified_by_its_declared_version(project: Project) -> None:
    versions = [{"lock": None, "version": text} for text in ("1.0", "1.1")]
    plan = planned(project, *(on(f"v{n}", gateway=command(**v)) for n, v in enumerate(versions)))
    assert ids(plan, "v0")[0].rsplit("-", 1)[1] != ids(plan, "v1")[0].rsplit("-", 1)[1]
    assert session(plan, "v0").tools == [*session(plan, "bf16").tools]


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"lock": None}, "expected the lock of the environment that holds its program"),
        ({"version": "1"}, "expected the lock of the environment that holds its program"),
        ({"command": ["smg", "{prot}"]}, "{prot}: expected one of {port}"),
        ({"command": ["smg", "--key={key}"]}, "{key} would stand in the list of processes"),
        ({"command": ["smg", "--urls={workers}"]}, "{workers} is a word of its own"),
        ({"lock": "smgg"}, "smgg.txt: no such file"),
        ({"ready": "health"}, "gateway.ready"),
    ],
)
def test_a_command_that_cannot_work_is_refused_in_a_line(
    project: Project, keys: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(UserError) as raised:
        planned(project, on("a", gateway=command(**keys)))
    assert refusal in str(raised.value) and "variants.a.gateway" in str(raised.value)
    assert "\n" not in str(raised.value)
