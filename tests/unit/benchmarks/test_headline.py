"""The tables of the README and of the results are what their command prints."""

import subprocess
import sys

import pytest

from tests.paths import ROOT


def headline(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "benchmarks/headline.py", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_readme_and_the_results_hold_the_tables_that_the_command_prints() -> None:
    printed = headline().stdout
    names = ("README.md", "gallery/docs/results.md")
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in names]
    assert all("uv run python benchmarks/headline.py" in page for page in pages)
    tables = printed.strip().split("\n\n")
    assert [table.count("\n") for table in tables] == [8, 4]
    assert all(table in page for table, page in zip(tables, pages, strict=True))


def test_another_study_has_the_columns_of_what_it_measured() -> None:
    heads, _, base, w8a8, _ = headline("--study", "h200-capacity").stdout.splitlines()
    slos = ["req/s within 500/30 ms", "req/s within 2000/100 ms"]
    assert [head for head in heads.split(" | ") if head.startswith("req/s")] == slos
    assert "client" not in heads
    assert base.startswith("| bf16 | 1 | 46.3 [")
    assert "61.8 or more" in w8a8


@pytest.mark.parametrize(
    ("study", "why"),
    [
        ("nope", "not recorded whole; expected one of"),
        ("h100-llama8b", "not recorded whole; expected one of"),
        ("fleet-capacity", "has neither a load of clients nor a capacity"),
    ],
)
def test_a_study_that_it_cannot_print_ends_in_one_line(study: str, why: str) -> None:
    ended = headline("--study", study)
    assert ended.returncode == 1 and not ended.stdout
    (said,) = ended.stderr.splitlines()
    assert said.startswith(f"{study}: {why}")
