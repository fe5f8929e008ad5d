"""What the commands say."""

import json

import pytest
from typer.testing import CliRunner

from servetune.cli import app
from servetune.files import write_json
from servetune.plan.make import make_plan
from servetune.records.paths import quality_path, search_path
from tests.project import Project


def planned(project: Project, study: str, *more: str) -> str:
    (project.root / "params.yaml").write_text(f"study: {study}\nvariants: all\nseed: 0\n")
    done = CliRunner().invoke(app, ["plan", *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("study", ["quickstart", "quickstart-capacity"])
def test_plan_lists_all_that_is_owed_and_whether_it_is_there(
    project: Project, monkeypatch: pytest.MonkeyPatch, study: str
) -> None:
    monkeypatch.chdir(project.root)
    plan = make_plan({"study": study, "variants": "all", "seed": 0}, project.root)
    owed = sum(len(session.owed) for session in plan.sessions)
    assert owed > 0
    assert planned(project, study).count("to measure") == owed
    for search in plan.searches:
        write_json(search_path(study, search.id, project.root), {})
    for quality in plan.qualities:
        write_json(quality_path(study, quality.id, project.root), {})
    there = len(plan.searches) + len(plan.qualities)
    assert there > 0
    assert planned(project, study).count("measured") == there
    told = json.loads(planned(project, study, "--json"))
    items = [item for session in told["sessions"] for item in session["items"]]
    assert (len(items), sum(item["is_measured"] for item in items)) == (owed, there)
