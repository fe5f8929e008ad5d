"""What cannot be made of a report costs its own place, marked, and no other."""

import io
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from servetune.analysis.findings.gather import Case, Finding, all_rules
from servetune.cli import app
from servetune.report import ratios
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.measured import Measured
from servetune.report.reading import read_measured
from servetune.report.section import Section, sections
from servetune.report.terminal import render_terminal
from servetune.report.validity import section as validity
from tests.paths import GALLERY
from tests.project import Project
from tests.recorded import plan_of, results_of
from tests.report_data import ReportData, make_data

pytestmark = pytest.mark.slow

STUDY = "h200-granite"


@pytest.fixture
def data() -> Iterator[ReportData]:
    yield make_data()
    sections.cache_clear()


def raising(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("planted <b>")


def anchors(data: Measured) -> list[str]:
    return [section.anchor for section in sections(data)]


def test_a_section_that_raises_is_marked_in_its_place_and_all_others_are_whole(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {section.anchor: section for section in sections(data)}
    whole = replace(data, lacks=[])
    monkeypatch.setattr(validity, "section", raising)
    page, markdown = render_html(whole), render_markdown(whole)
    assert anchors(whole) == [*before]
    assert [s.anchor for s in sections(whole) if not s.is_made] == ["validity"]
    assert "Validity could not be made: ZeroDivisionError: planted &lt;b&gt;." in page
    assert "> The section Validity could not be made: ZeroDivisionError" in markdown
    assert page.count("could not be made") == markdown.count("could not be made") == 1
    assert whole.lacks == ["The section Validity could not be made: ZeroDivisionError: planted <b>"]


def test_a_section_whose_template_or_markdown_raises_is_marked(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def section(measured: Measured) -> Section:
        return Section("validity", "Validity", words=None, markdown=raising)

    monkeypatch.setattr(validity, "section", section)
    page, markdown = render_html(data), render_markdown(data)
    assert page.count("The section Validity could not be made: UndefinedError") == 1
    assert markdown.count("The section Validity could not be made: ZeroDivisionError") == 1
    assert len(data.lacks) == 2


def test_a_chart_that_raises_leaves_its_section_and_the_other_charts(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawing(of: ReportData) -> list[Section]:
        return [each for each in sections(of) if each.anchor in ("answer", "load-points")]

    drawn = sum(len(each.drawn) for each in drawing(data))
    whole = replace(data, lacks=[])
    monkeypatch.setattr(ratios, "look", raising)
    page = render_html(whole)
    assert all(each.is_made and not each.drawn for each in drawing(whole))
    assert sum(len(each.marks) for each in drawing(whole)) == drawn > 0
    assert page.count("could not be made: ZeroDivisionError") == drawn
    assert 'data-chart="tradeoff-ttft"' in page


def test_a_finding_whose_rule_raises_is_marked_and_the_others_stand(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(case: Case) -> Finding:
        return Finding("Told all the same.", (), ("nothing",), 1.0, "kv-cache")

    monkeypatch.setitem(all_rules(), "planted", raising)
    monkeypatch.setitem(all_rules(), "other", told)
    page, markdown = render_html(data), render_markdown(data)
    assert page.count("The finding planted of") == page.count("Told all the same.") == 1
    assert "The finding planted of" in markdown


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_tpot_that_none_can_have_stops_no_section(data: ReportData, value: float) -> None:
    table = data.table.copy()
    names = [name for name in table.columns if name.startswith("tpot_")]
    table.loc[table.index[1], names] = value
    odd = replace(data, table=table, lacks=[])
    page, markdown = render_html(odd), render_markdown(odd)
    assert anchors(odd) == anchors(data)
    assert all(section.is_made for section in sections(odd))
    charts = page.split('id="charts">')[1].split("</script>")[0]
    json.loads(charts, parse_constant=pytest.fail)
    assert table["measurement"].iloc[1] in page
    assert "### " in markdown
    assert math.isinf(value) or odd.lacks == []


def test_a_part_of_the_terminals_tables_that_raises_costs_its_own_place(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servetune.report.terminal.where_of", raising)
    out = io.StringIO()
    Console(file=out, width=200).print(render_terminal(data))
    assert "The table of load points could not be made: ZeroDivisionError" in out.getvalue()


def test_a_report_that_is_not_whole_is_told_at_the_end_of_a_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    shutil.copytree(GALLERY / "results" / STUDY, project.root / "results" / STUDY)
    (project.root / "params.yaml").write_text(f"study: {STUDY}\nvariants: all\nseed: 0\n")
    CliRunner().invoke(app, ["tables"], catch_exceptions=False)
    monkeypatch.setattr(validity, "section", raising)
    done = CliRunner().invoke(app, ["report"], catch_exceptions=False)
    assert (done.exit_code, done.stderr.count("could not be made")) == (3, 1)
    assert Path("reports/summary.sha256").read_text().count("could not be made") == 1
    shown = CliRunner().invoke(app, ["show"], catch_exceptions=False)
    assert "1 part could not be made" in shown.stdout


@pytest.mark.parametrize("study", ["h200-llama8b-graphs", "h200-capacity", "h100-front-end"])
def test_the_report_of_a_recorded_study_lacks_nothing(study: str) -> None:
    measured = read_measured(plan_of(study), results_of(study).parents[1])
    assert "could not be made" not in render_html(measured) + render_markdown(measured)
    assert measured.lacks == []
