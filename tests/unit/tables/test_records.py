"""The records of a plan: which there must be."""

import shutil

import pytest

from servetune.errors import UserError
from servetune.tables.records import read_records, records_so_far
from tests.paths import GALLERY
from tests.project import Project
from tests.recorded import plan_of


@pytest.mark.parametrize(
    ("study", "folder"),
    [("h200-granite", "records"), ("h200-capacity", "records"), ("h200-capacity", "searches")],
)
def test_tables_are_of_all_records_of_a_plan_or_not_made(
    project: Project, study: str, folder: str
) -> None:
    results = project.root / "results" / study
    shutil.copytree(GALLERY / "results" / study, results)
    plan = plan_of(study)
    assert records_so_far(plan, project.root) == read_records(plan, project.root)
    lost = min((results / folder).glob("*.json"))
    lost.unlink()
    with pytest.raises(UserError, match=lost.stem):
        read_records(plan, project.root)


@pytest.mark.parametrize("study", ["phi4-tune", "h100-tune", "h100-tune-long"])
def test_the_repeats_of_a_tuning_count_the_launches_of_each_workload(study: str) -> None:
    """Launches that were confirmed in one round are compared, whatever came before them."""
    plan = plan_of(study)
    assert plan.tuning is not None
    records = read_records(plan, GALLERY)
    [name, _] = plan.tuning.place
    of = {(one.workload, one.variant, one.repeat) for one in records.measurements.values()}
    of |= {(one.workload, one.variant, one.repeat) for one in records.searches}
    winner = plan.tuning.rounds[-1].incumbent
    confirming = {(of, repeat) for of in (plan.baseline, winner) for repeat in (1, 2, 3)}
    assert {(variant, repeat) for workload, variant, repeat in of if workload == name} == confirming
    assert {repeat for workload, _, repeat in of if workload != name} == {1}
