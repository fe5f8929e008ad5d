"""What other studies recorded of a tuning's candidates tells it what to try."""

from typing import Any

import pytest

from servetune.files import write_json
from servetune.plan.make import declare_candidates, make_plan
from servetune.plan.planned import Plan
from servetune.plan.rounds import RoundRecord, follows_digest
from servetune.records.paths import record_path, round_path, session_path
from servetune.records.trials import Round, Trial, TrialResult
from servetune.study.study import read_study
from servetune.tables.prior_results import applicable, prior_results
from tests.project import Project
from tests.report_data import make_data

TUNED, OTHER = "quickstart-tune", "other"


def measured(project: Project, study: str, host: str) -> Plan:
    """Plan a study and write records of all its sessions, from a host."""
    plan = make_plan({**project.params, "study": study}, project.root)
    data = make_data(plan, host=host)
    for record in data.records.values():
        write_json(record_path(study, record.measurement, project.root), record)
    for session, told in data.sessions.items():
        write_json(session_path(study, session, project.root), told)
    return plan


def found(project: Project, host: str = "AMD", **load: Any) -> list[TrialResult]:
    """Screen the base of a tuning, beside another study with its own load and host."""
    study = project.study(TUNED)
    study["workloads"]["chat"]["load_points"] = [{"concurrency": 16, "requests": 64}]
    project.write_study(study, TUNED)
    del study["tune"]
    study["variants"]["eight"] = {"model": "tiny", "server": {"max_num_seqs": 8}}
    study["variants"]["outside"] = {"model": "tiny", "server": {"max_num_seqs": 5}}
    study["workloads"]["chat"] |= load
    study["workloads"]["talk"] = study["workloads"].pop("chat")
    project.write_study(study, OTHER)
    measured(project, OTHER, host)
    plan = make_plan({**project.params, "study": TUNED}, project.root)
    assert plan.tuning is not None
    record = RoundRecord(
        study=TUNED,
        declared=plan.tuning.declared,
        follows=follows_digest([], project.root),
        round=Round(1, (Trial("bf16", "screen"),), "bf16"),
    )
    write_json(round_path(TUNED, 1, project.root), record)
    plan = measured(project, TUNED, "AMD")
    declared = declare_candidates(plan, read_study(TUNED, project.root), project.root)
    elsewhere = prior_results(declared, plan, project.root)
    return applicable(elsewhere, plan.trials_before(2), project.root)


def test_a_candidate_that_another_study_served_alike_under_the_same_load_is_known(
    project: Project,
) -> None:
    [known] = found(project)
    assert known.trial.candidate == "max_num_seqs-8"
    assert known.value and known.failure is None


@pytest.mark.parametrize("changes", [{"host": "Intel"}, {"warmup_requests": 9}])
def test_another_host_or_another_load_tells_nothing(
    project: Project, changes: dict[str, Any]
) -> None:
    assert found(project, **changes) == []
