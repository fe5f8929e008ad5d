"""Candidates that need no launch, by what the base's launch told of device and model."""

from typing import Any

import pytest

from servetune.plan.planned import Plan
from servetune.records.sessions import Launch
from servetune.study.study import Study, read_study
from servetune.tables.pruned import Pruned, pruned
from servetune.tune.fit import Requests
from tests.project import Project
from tests.sessions_data import session
from tests.unit.analysis.architectures import H200, LLAMA_8B
from tests.unit.plan.test_rounds import STUDY, tuned

SPACE = {"max_num_seqs": [1, 64], "max_model_len": [4096, 2_000_000]}
SENT = Requests(512, 128)


@pytest.fixture
def plan(project: Project) -> Plan:
    return tuned(project, space=SPACE)


@pytest.fixture
def study(project: Project, plan: Plan) -> Study:
    return read_study(STUDY, project.root)


def base(**told: Any) -> dict[str, Launch]:
    """A launch of the base on a GPU that told everything, or something else."""
    host = {"gpus": [{"name": "NVIDIA H200", "memory": "143771 MiB"}]}
    known = {"host": host, "model": LLAMA_8B, "ceilings": H200, **told}
    return {"bf16": session("bf16", known).launches[0]}


def test_a_kv_cache_that_cannot_fit_needs_no_launch(study: Study, plan: Plan) -> None:
    found = pruned(study, plan, {"bf16"}, base(), SENT)
    assert sorted(found.reasons) == [
        "max_num_seqs-1-max_model_len-2000000",
        "max_num_seqs-64-max_model_len-2000000",
    ]


def test_one_sequence_has_a_bound_and_many_have_a_higher_one(study: Study, plan: Plan) -> None:
    at_most = pruned(study, plan, {"bf16"}, base(), SENT).at_most
    one, many = (at_most[f"max_num_seqs-{n}-max_model_len-4096"] for n in (1, 64))
    # 15 GB at 4,300 GB/s are 3.5 ms a token, 128 tokens a request.
    assert one == pytest.approx(1.1 / (128 * 0.00349), rel=0.01)
    assert many > 10 * one


@pytest.mark.parametrize("missing", [{"model": None}, {"host": {}, "ceilings": None}])
def test_what_was_not_told_spares_no_launch(study: Study, plan: Plan, missing: Any) -> None:
    assert pruned(study, plan, {"bf16"}, base(**missing), SENT) == Pruned()


def test_what_was_launched_is_not_judged_again(study: Study, plan: Plan) -> None:
    tried = {"bf16", "max_num_seqs-1-max_model_len-2000000"}
    assert tried.isdisjoint(pruned(study, plan, tried, base(), SENT).reasons)
