"""A prefill and a decode pool in a study: what is refused before anything starts, what decides."""

from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.make import make_plan
from tests.project import Project
from tests.unit.plan.test_fleets import Edit, gateway, ids, on, planned, session

POOLS = {"prefill": {"server": {"max_num_seqs": 2}}, "decode": {"replicas": 2}}


def split(**values: Any) -> Edit:
    return on("split", **{"roles": POOLS, "gateway": gateway(), **values})


def test_the_pools_have_the_variants_arguments_and_their_own(project: Project) -> None:
    found = session(planned(project, split(server={"seed": 3})), "split")
    common = {**found.server, "seed": 3}
    assert found.roles["prefill"].server == {**common, "max_num_seqs": 2}
    assert found.roles["decode"].server == common
    assert found.replicas == 3


def test_what_params_set_is_of_every_server(project: Project) -> None:
    planned(project, split())
    plan = make_plan({**project.params, "max_num_seqs": 5}, project.root)
    found = session(plan, "split")
    assert {pool.server["max_num_seqs"] for pool in found.roles.values()} == {5}


def test_null_drops_an_argument_of_the_variant(project: Project) -> None:
    pools = {"prefill": {"server": {"seed": None}}, "decode": {}}
    found = session(planned(project, split(roles=pools, server={"seed": 3})), "split")
    assert "seed" not in found.roles["prefill"].server
    assert found.roles["decode"].server["seed"] == 3


def test_pools_decide_the_ids(project: Project) -> None:
    other = {**POOLS, "decode": {"replicas": 3}}
    swapped = {"prefill": POOLS["decode"], "decode": POOLS["prefill"]}
    owed = {
        ids(planned(project, on("split", roles=roles, gateway=gateway())), "split")[0]
        for roles in (POOLS, other, swapped, None)
    }
    assert len(owed) == 4


def test_pools_take_the_gpus_of_all_their_servers(project: Project) -> None:
    plan = planned(
        project,
        lambda study: study.update(hardware="nvidia-h200"),
        split(server={"tensor_parallel_size": 2}),
    )
    assert session(plan, "split").gpus == 6


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"gateway": None}, r"split\.roles: need a gateway that sends prompts to one pool"),
        ({"gateway": gateway("kv_aware")}, r"split\.gateway\.policy: kv_aware is not known"),
        ({"replicas": 2}, r"split\.replicas: each role has its own; leave it out"),
        (
            {"roles": {"prefill": {"server": {"tensor_parallel_size": 2}}}},
            r"split\.roles\.prefill\.server\.tensor_parallel_size: pools have equal parts",
        ),
        (
            {"roles": {"decode": {"server": {"max_num_seq": 2}}}},
            r"split\.roles\.decode\.server\.max_num_seq: vllm serve has no such argument",
        ),
        ({"roles": {"decoder": {}}}, r"split\.roles\.decoder: .*decode"),
    ],
)
def test_what_pools_cannot_be_is_one_line(
    project: Project, values: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        planned(project, split(**values))
