"""Whatever a run writes is there whole, or as it was before."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from servetune.cli import app
from servetune.files import whole_file
from tests.paths import ROOT
from tests.project import Project

STUDY = "h200-granite"


def test_a_write_that_fails_leaves_what_was_there_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("whole")
    with pytest.raises(OSError), whole_file(path) as temporary:
        temporary.write_text("ha")
        raise OSError("no space left on device")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_tables_metrics_reports_and_stamps_are_replaced_and_never_written_into(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    shutil.copytree(ROOT / "results" / STUDY, project.root / "results" / STUDY)
    plan = project.root / "params.yaml"
    plan.write_text(f"study: {STUDY}\nvariants: all\nseed: 0\n")
    results, reports = Path("results", STUDY), Path("reports")
    outputs = [path for path in results.iterdir() if path.is_file()]
    outputs += [reports / f"summary.{suffix}" for suffix in ("html", "md", "sha256")]
    reports.mkdir()
    for path in outputs:
        if path.suffix != ".parquet":
            path.write_text("what was there before")
        Path(f"{path}.link").hardlink_to(path)
    before = {path: path.read_bytes() for path in outputs}

    for command in ("tables", "report"):
        done = CliRunner().invoke(app, [command], catch_exceptions=False)
        assert done.exit_code == 0, done.output

    assert len(outputs) == 14
    for path in outputs:
        assert not path.samefile(f"{path}.link"), path
        assert Path(f"{path}.link").read_bytes() == before[path], path
