"""The report of a plan of which some is not measured yet."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from servetune.cli import app
from servetune.errors import UserError
from servetune.numbers import NONE
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.report.answer.section import NOTHING
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.measured import Measured
from servetune.report.reading import read_partial
from servetune.report.terminal import render_terminal
from tests.paths import GALLERY
from tests.project import Project

pytestmark = pytest.mark.slow


def recorded(project: Project, study: str) -> tuple[Plan, Path]:
    """A project with the results of a recorded study that a test may take away."""
    shutil.copytree(GALLERY / "results" / study, project.root / "results" / study)
    plan = make_plan({"study": study, "variants": "all", "seed": 0}, project.root)
    return plan, project.root / "results" / study


def take_away(results: Path, *patterns: str) -> None:
    for pattern in patterns:
        files = list(results.glob(pattern))
        assert files
        for file in files:
            file.unlink()


def shown(measured: Measured) -> str:
    printed = StringIO()
    table = render_terminal(measured)
    Console(file=printed, width=200).print(table)
    return printed.getvalue()


def test_what_is_not_measured_yet_is_a_pending_row_and_the_rest_has_its_numbers(
    project: Project,
) -> None:
    plan, results = recorded(project, "h200-llama8b")
    whole = read_partial(plan, project.root)
    assert whole.pending == {} and "pending" not in shown(whole)
    # A variant of which nothing is there, and one whose session has no record.
    take_away(results, "records/fp8-kv-*", "sessions/fp8-kv-*")
    take_away(results, "records/w8a8-closed-c1-*", "sessions/w8a8-r1-*")
    measured = read_partial(plan, project.root)
    rows = measured.comparison.set_index(["variant", "workload", "load_point"])["status"]
    assert set(rows["fp8-kv"]) == {"pending"}
    assert rows["w8a8", "closed", "c1"] == "pending" and rows["bf16", "closed", "c1"] == "ok"
    pending = measured.table["status"] == "pending"
    assert measured.pending == {"load point": pending.sum()}
    assert len(measured.table) == len(whole.table)
    assert not measured.table[~pending].isna().all(axis=1).any()
    page, markdown = render_html(measured), render_markdown(measured)
    assert page.count('<span class="status pending">pending</span>') >= len(rows[rows == "pending"])
    assert "partial" in markdown and "| pending |" in markdown
    assert shown(measured).count(" pending ") == (rows == "pending").sum()


def test_a_report_waits_neither_for_the_baseline_nor_for_a_search(project: Project) -> None:
    plan, results = recorded(project, "h200-capacity")
    take_away(results, "searches/bf16-*", "sessions/bf16-*")
    (closed_loop,) = results.glob("records/bf16-open-capacity-r1-0-*")
    measured = read_partial(plan, project.root)
    assert measured.pending == {"capacity": 2}
    (row,) = [each for each in measured.found if each.row["variant"] == "bf16"][:1]
    assert row.is_pending and row.capacity == NONE
    assert closed_loop.stem in set(measured.table["measurement"])
    assert "pending" in render_html(measured)
    assert "pending" in render_markdown(measured)
    assert "pending" in shown(measured)


def test_without_any_record_there_is_no_report(project: Project) -> None:
    plan = make_plan({"study": "quickstart", "variants": "all", "seed": 0}, project.root)
    with pytest.raises(UserError, match="nothing of this plan"):
        read_partial(plan, project.root)


def test_show_says_of_an_edited_study_that_nothing_of_it_is_measured(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(project, "h200-granite")
    (project.root / "params.yaml").write_text(
        yaml.safe_dump({**project.params, "study": "h200-granite", "seed": 7})
    )
    monkeypatch.chdir(project.root)
    shown = CliRunner().invoke(app, ["show"])
    assert shown.exit_code == 0 and "nothing of this plan is measured" in shown.stdout


def test_show_names_the_partial_report_until_more_is_measured(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, results = recorded(project, "h200-granite")
    params = {**project.params, "study": "h200-granite"}
    (project.root / "params.yaml").write_text(yaml.safe_dump(params))
    records = sorted(results.glob("records/*.json"))
    last = records[-1].read_bytes()
    records[-1].unlink()
    monkeypatch.chdir(project.root)
    made = CliRunner().invoke(app, ["report", "--partial"])
    assert made.stdout.splitlines() == [
        "A first report to look at now: reports/summary.html; still to come: 1 load point"
    ]
    assert json.loads((project.root / "reports/summary.json").read_text())
    assert "The partial report: reports/summary.html" in CliRunner().invoke(app, ["show"]).stdout
    records[-1].write_bytes(last)
    assert "No report of these yet" in CliRunner().invoke(app, ["show"]).stdout


def test_a_race_of_which_only_the_screening_began_has_measurements_and_no_answer(
    project: Project,
) -> None:
    """Its load points of other fidelity are ok, and none of them decides."""
    plan, results = recorded(project, "h200-tune")
    take_away(results, "tuning/round-[!1]*.json")
    plan = make_plan({"study": "h200-tune", "variants": "all", "seed": 0}, project.root)
    measured = read_partial(plan, project.root)
    assert (measured.table["status"] == "ok").all()
    for text in (render_markdown(measured), render_html(measured)):
        assert "The race is not over" in text and NOTHING not in text
        assert "Not measured yet: 1 round to choose" in text
