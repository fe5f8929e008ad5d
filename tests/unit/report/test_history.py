"""The history of a metric, in the terminal and in the report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from servetune.cli import app
from servetune.report.history.section import section
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.tables.history import read_history
from servetune.tables.reviewed import read_reviewed
from tests.project import Project
from tests.report_data import ReportData, make_data
from tests.unit.analysis.history_data import METRIC, Measured

pytestmark = pytest.mark.slow


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """A study that was measured once, in a folder of a repository."""
    made = Measured(tmp_path)
    made.commit(made.rows({"bf16": 100, "w8a8": 150}))
    return made


def measure_again(measured: Measured) -> str:
    """Measure bf16 20 % faster with a newer vLLM; returns the commit."""
    return measured.commit(measured.rows({"bf16": 120, "w8a8": 150}, version="0.32.0"))


def report(measured: Measured) -> ReportData:
    return replace(make_data(), read_past=lambda: read_history("mine", measured.root))


def test_the_command_tells_where_a_metric_moved_in_80_columns(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(measured.root)
    project.write_study(project.study(), "mine")
    monkeypatch.chdir(measured.root)

    def history(*words: str) -> Result:
        words = ("history", *words, "--study", "mine")
        return CliRunner().invoke(app, words, env={"COLUMNS": "80"})

    commit = measure_again(measured)
    told = history(METRIC).stdout
    (line,) = (line for line in told.splitlines() if "faster" in line)
    assert line.startswith(commit[:9]) and "0.32.0" in line
    assert all(len(line) <= 80 for line in told.splitlines())
    rows = json.loads(history(METRIC, "--json", "--variant", "bf16").stdout)
    assert [row["verdict"] for row in rows] == [None, "faster"]
    assert rows[1]["commit"] == commit and rows[1]["metric"] == METRIC
    assert "did you mean ttft_p50_ms?" in history("ttft_p50").stderr
    assert "nothing was measured" in history("acceptance_length").stderr
    assert "expected one of bf16, w8a8" in history(METRIC, "--variant", "fp16").stderr


def test_the_report_has_a_history_once_two_commits_measured(measured: Measured) -> None:
    assert section(report(measured)) is None
    measure_again(measured)
    data = report(measured)
    html, markdown = render_html(data), render_markdown(data)
    assert '<section id="history">' in html
    (row,) = (line for line in markdown.splitlines() if " faster 1." in line)
    assert row.startswith("| bf16 | text · c8 | Output throughput | this report |")


def test_a_report_is_the_same_before_and_after_what_it_shows_is_committed(
    measured: Measured,
) -> None:
    measured.write(measured.rows({"bf16": 120, "w8a8": 150}))
    before = render_markdown(report(measured))
    measured.commit()
    assert render_markdown(report(measured)) == before


def test_the_chart_rings_what_moved_and_shades_versions(measured: Measured) -> None:
    measure_again(measured)
    made = section(report(measured))
    assert made is not None
    spec = made.charts[f"history-{METRIC}"]
    assert spec is not None
    rows, bands = (spec["datasets"][name] for name in ("rows", "bands"))
    assert [(row["variant"], row["moved"]) for row in rows if row["moved"]] == [("bf16", True)]
    assert [band["name"] for band in bands] == ["vLLM 0.31.0", "vLLM 0.32.0"]
    assert [band["is_odd"] for band in bands] == [False, True]


def test_capacity_and_quality_have_a_history_too(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(capacity: float, perplexity: float) -> str:
        ends = {"capacity_rps_lower": 0.9 * capacity, "capacity_rps_upper": 1.1 * capacity}
        of = {"live": {"capacity_rps": capacity, **ends, "c8": {"ok": 1}}}
        nested = {"bf16": {**of, "quality": {"perplexity": perplexity, "verdict": "passes"}}}
        (measured.root / "results/mine/metrics.json").write_text(json.dumps(nested))
        return measured.commit()

    found(40, 12.5)
    assert section(report(measured)) is None
    found(41, 12.5)
    last = found(60, 12.5)
    project = Project(measured.root)
    project.write_study(project.study(), "mine")
    monkeypatch.chdir(measured.root)
    words = ("history", "capacity_rps", "--study", "mine")
    told = CliRunner().invoke(app, words).stdout.splitlines()
    assert [line.split()[-1][:-1] for line in told[3:]] == ["1.02", "1.46"]
    assert "moved" in told[-1] and last[:9] in told[-1]
    changed = replace(report(measured), read_changes=lambda: read_reviewed("mine", measured.root))
    made = section(changed)
    assert made is not None
    rows = [line for line in render_markdown(changed).splitlines() if "capacity rps" in line]
    assert len(rows) == 3 and "perplexity" not in "".join(rows)
