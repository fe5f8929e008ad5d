"""The tables of the README and of the results are what their command prints."""

import subprocess
import sys

from tests.paths import ROOT


def test_the_readme_and_the_results_hold_the_tables_that_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "benchmarks/headline.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = ("README.md", "gallery/docs/results.md")
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in names]
    assert all("uv run python benchmarks/headline.py" in page for page in pages)
    tables = printed.strip().split("\n\n")
    assert [table.count("\n") for table in tables] == [8, 4]
    assert all(table in page for table, page in zip(tables, pages, strict=True))
