"""The table of the README is what its command prints."""

import subprocess
import sys

from tests.paths import ROOT


def test_the_readme_holds_the_table_that_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "benchmarks/headline.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "uv run python benchmarks/headline.py" in readme
    assert printed.count("\n") > 2
    assert printed in readme
