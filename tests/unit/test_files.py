"""Whatever a run writes is there whole, or as it was before."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from servetune.cli import app
from servetune.errors import UserError
from servetune.files import whole_file
from tests.project import Project
from tests.recorded import results_of

STUDY = "h200-granite"


def test_a_write_that_fails_leaves_what_was_there_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("whole")
    with pytest.raises(UserError, match="No space left"), whole_file(path) as temporary:  # noqa: PT012
        temporary.write_text("ha")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


FULL = """
import resource, signal, sys
from pathlib import Path
from servetune.errors import UserError
from servetune.files import write_json, write_table, write_text
import pandas as pd

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
table = pd.DataFrame({"a": range(10_000)})
for write in (
    lambda: write_json(Path("a.json"), {"a": "b" * 10_000}),
    lambda: write_text(Path("a.html"), "b" * 10_000),
    lambda: write_table(Path("a.parquet"), table.sample(frac=1)),
    lambda: write_table(Path("a.csv"), table),
):
    try:
        write()
    except UserError as error:
        print(error)
"""


def test_a_disk_that_takes_no_more_leaves_nothing_and_is_told_in_a_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [f"a.{suffix}", "cannot be written"] for suffix in ("json", "html", "parquet", "csv")
    ]
    assert list(tmp_path.iterdir()) == []


def test_tables_metrics_reports_and_stamps_are_replaced_and_never_written_into(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    shutil.copytree(results_of(STUDY), project.root / "results" / STUDY)
    plan = project.root / "params.yaml"
    plan.write_text(f"study: {STUDY}\nvariants: all\nseed: 0\n")
    results, reports = Path("results", STUDY), Path("reports")
    outputs = [
        *{*(path for path in results.iterdir() if path.is_file()), results / "tables.sha256"}
    ]
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

    assert len(outputs) == 16
    for path in outputs:
        assert not path.samefile(f"{path}.link"), path
        assert Path(f"{path}.link").read_bytes() == before[path], path
