"""The tables of the README and of the results are what their command prints."""

import subprocess
import sys

import pytest

from servetune.numbers import NONE
from tests.paths import ROOT


def headline(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "benchmarks/headline.py", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("page", "options", "rows"),
    [
        ("README.md", (), 9),
        ("gallery/docs/results.md", ("--study", "h200-llama8b-graphs"), 7),
    ],
)
def test_the_pages_hold_the_tables_that_the_command_prints(
    page: str, options: tuple[str, ...], rows: int
) -> None:
    table, text = headline(*options).stdout.strip(), (ROOT / page).read_text(encoding="utf-8")
    assert "uv run python benchmarks/headline.py" in text
    assert len(table.splitlines()) == 2 + rows
    assert table in text


def test_each_number_has_an_interval_where_there_are_several_launches() -> None:
    _, _, counts, *rows = headline().stdout.splitlines()
    assert counts == "| launches | 5 | 3 | 3 | 3 |"
    cells = [cell for row in rows for cell in row.strip("| ").split(" | ")[1:] if cell != NONE]
    # Of w8a8 one launch has the telemetry for it.
    assert [cell for cell in cells if "[" not in cell] == ["54 %"]


def test_another_study_has_the_rows_of_what_it_measured() -> None:
    heads, _, counts, *rows = headline("--study", "h200-capacity").stdout.splitlines()
    assert heads == "|  | bf16 | w8a8 | fp8 |" and counts == "| launches | 1 | 1 | 1 |"
    named = [row.split(" | ")[0] for row in rows]
    within = ["| req/s within 500/30 ms", "| req/s within 2000/100 ms"]
    assert named == [within[0], "| over bf16", within[1], "| over bf16"]
    assert "46.3 [41.9, 50.9]" in rows[0] and "61.8 or more" in rows[2]


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
