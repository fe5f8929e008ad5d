"""The tables of the README are what their command prints."""

import subprocess
import sys

from tests.paths import ROOT


def test_the_readme_holds_the_tables_that_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "benchmarks/headline.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "uv run python benchmarks/headline.py" in readme
    tables = printed.strip().split("\n\n")
    assert [table.count("\n") for table in tables] == [8, 4]
    assert [table for table in tables if table not in readme] == []
