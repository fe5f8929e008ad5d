"""The recorded studies: their tables are those that the present code makes of their records."""

import shutil
from pathlib import Path

import pytest

from servetune.plan.kept import so_far
from servetune.plan.make import make_plan
from servetune.report.markdown import render_markdown
from servetune.report.reading import read_measured
from servetune.tables.write import write_tables
from tests.paths import GALLERY
from tests.project import Project
from tests.recorded import RECORDED, results_of


@pytest.mark.parametrize("study", RECORDED)
def test_the_tables_of_a_recorded_study_are_those_of_its_records(study: str) -> None:
    kept, made = GALLERY / "results" / study, results_of(study)
    for name in ("metrics.json", "load_points.csv", "quality.csv"):
        assert (made / name).read_text() == (kept / name).read_text(), name


def test_a_searched_variant_that_was_renamed_has_its_capacity(tmp_path: Path) -> None:
    project, name = Project(tmp_path), "h200-capacity"
    study = project.study(name)
    study["variants"] = {f"my-{variant}": of for variant, of in study["variants"].items()}
    study["baseline"] = f"my-{study['baseline']}"
    project.write_study(study, name)
    results = tmp_path / "results" / name
    shutil.copytree(GALLERY / "results" / name, results)
    plan = make_plan({**project.params, "study": name}, tmp_path)
    write_tables(plan, results)
    measured = read_measured(plan, tmp_path)
    before = (GALLERY / "results" / name / "metrics.json").read_text()
    now = (results / "metrics.json").read_text().replace("my-", "")
    assert now == before
    assert {each.row["variant"] for each in measured.found} == set(study["variants"])
    assert "my-" in render_markdown(measured)


def test_a_searched_study_that_was_renamed_has_its_searches(tmp_path: Path) -> None:
    project, old, new = Project(tmp_path), "h200-capacity", "our-capacity"
    project.write_study(project.study(old), new)
    shutil.copytree(GALLERY / "results" / old, tmp_path / "results" / new)
    plan = make_plan({**project.params, "study": new}, tmp_path)
    searched = [(session, search) for session in plan.sessions for search in session.searches]
    assert searched
    for session, search in searched:
        assert len(so_far(session, search, tmp_path)) > 1
