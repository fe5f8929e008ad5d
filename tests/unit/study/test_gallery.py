"""The gallery is to be read: rendering one of its studies leaves nothing for Git."""

import subprocess

import pytest

from tests.paths import GALLERY


@pytest.mark.parametrize(
    "made",
    [
        *("reports/summary.md", "reports/summary.json", "reports/partial/x", "logs/x.log"),
        *("results/x/load_points.parquet", "results/raw/x/y.log", "bundles/x.pyz"),
        *("data/models/x", "data/workloads/x.jsonl", ".servetune/x", ".snakemake/x"),
    ],
)
def test_what_a_reader_makes_in_the_gallery_is_ignored(made: str) -> None:
    words = ["git", "check-ignore", "--quiet", made]
    assert subprocess.run(words, cwd=GALLERY, check=False).returncode == 0
