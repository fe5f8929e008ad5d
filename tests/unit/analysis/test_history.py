"""A metric over the commits of a real repository."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.history import follow
from servetune.analysis.wording import text_of
from servetune.tables.frames import records_of
from servetune.tables.history import read_history
from tests.unit.analysis.history_data import METRIC, Measured


@pytest.fixture
def project(tmp_path: Path) -> Measured:
    return Measured(tmp_path)


def lines(project: Measured, variant: str) -> list[dict[str, Any]]:
    rows = follow(read_history("mine", project.root), 0.03)
    chosen = rows[(rows["variant"] == variant) & (rows["metric"] == METRIC)]
    return records_of(chosen)


def commits(project: Measured, variant: str) -> list[str]:
    return [row["commit"] for row in lines(project, variant)]


def moved(project: Measured, variant: str) -> list[str]:
    return [
        row["commit"] for row in lines(project, variant) if row["verdict"] in ("faster", "slower")
    ]


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    return [text_of(row["verdict"]) for row in rows]


def test_a_metric_moves_in_the_commit_that_measured_it_and_nowhere_else(project: Measured) -> None:
    base = project.rows({"bf16": 100, "fp8": 150})
    first = project.commit(base)
    project.commit()
    bf16 = base[base["variant"] == "bf16"]
    second = project.commit(bf16, project.rows({"fp8": 180}, version="0.32.0"))
    third = project.commit(project.rows({"bf16": 100, "fp8": 180}, version="0.32.0"))
    assert commits(project, "bf16") == [first, third]
    assert moved(project, "bf16") == []
    found = lines(project, "fp8")
    assert [row["commit"] for row in found] == [first, second, third]
    assert verdicts(found) == ["", "faster", "indistinguishable"]
    assert [row["vllm_version"] for row in found] == ["0.31.0", "0.32.0", "0.32.0"]
    assert [row["against"] for row in found[1:]] == [first, second]
    assert found[1]["ratio_low"] < 1.2 < found[1]["ratio_high"]
    assert all(row["low"] < row["value"] < row["high"] for row in found)


def test_a_creep_too_small_to_see_from_one_commit_to_the_next_is_found(project: Measured) -> None:
    speeds = [100 * 0.985**step for step in range(6)]
    made = [project.commit(project.rows({"bf16": speed})) for speed in speeds]
    (first, *_) = [row for row in lines(project, "bf16") if row["verdict"] == "slower"]
    assert first["commit"] in made[3:] and first["against"] == made[0]


def test_one_launch_has_no_verdict_and_more_launches_of_the_same_are_no_change(
    project: Measured,
) -> None:
    project.commit(project.rows({"bf16": 100}, launches=1))
    project.commit(project.rows({"bf16": 50}, launches=1))
    some = project.rows({"bf16": 50}, launches=2)
    project.commit(some)
    more = project.rows({"bf16": 50})
    project.commit(some, more[more["repeat"] == 3])
    found = lines(project, "bf16")
    assert [row["launches"] for row in found] == [1, 1, 2, 3]
    assert verdicts(found) == ["", "none", "none", ""]


def test_what_was_measured_again_or_not_yet_committed_is_a_line_of_its_own(
    project: Measured,
) -> None:
    first = project.commit(project.rows({"bf16": 100}))
    project.write(project.rows({"bf16": 80}))
    assert commits(project, "bf16") == [first, ""]
    assert moved(project, "bf16") == [""]
    second = project.commit()
    assert commits(project, "bf16") == [first, second]


def test_a_renamed_variant_keeps_its_history_whatever_its_name(project: Measured) -> None:
    table = project.rows({"old": 100})
    first = project.commit(table)
    project.commit(table.assign(variant="nan"))
    second = project.commit(project.rows({"nan": 120}))
    assert commits(project, "old") == []
    assert commits(project, "nan") == [first, second]
    assert moved(project, "nan") == [second]


def test_a_study_that_was_moved_with_its_project_keeps_its_history(project: Measured) -> None:
    first = project.commit(project.rows({"bf16": 100}))
    second = project.commit(project.rows({"bf16": 120}))
    (project.repository / "gallery").mkdir()
    project.git("mv", str(project.root), "gallery/moved")
    project.root = project.repository / "gallery/moved"
    project.commit()
    third = project.commit(project.rows({"bf16": 150}))
    assert commits(project, "bf16") == [first, second, third]
    assert moved(project, "bf16") == [second, third]


def test_a_merge_measured_what_its_branch_brings(project: Measured) -> None:
    base = project.rows({"bf16": 100})
    first = project.commit(base)
    project.git("checkout", "-qb", "faster")
    project.commit(project.rows({"bf16": 130}))
    project.commit(project.rows({"bf16": 150}))
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--no-ff", "-m", "Merge", "faster")
    merge = project.git("rev-parse", "HEAD")
    assert commits(project, "bf16") == [first, merge]
    assert moved(project, "bf16") == [merge]


def test_a_failure_is_a_line_without_a_value_and_ends_no_comparison(project: Measured) -> None:
    first = project.commit(project.rows({"bf16": 100}))
    project.commit(project.rows({"bf16": 100}).assign(status="failed"))
    third = project.commit(project.rows({"bf16": 120}))
    found = lines(project, "bf16")
    assert [row["launches"] for row in found] == [3, 0, 3]
    assert found[2]["commit"] == third and found[2]["against"] == first
    assert found[2]["verdict"] == "faster"


def test_a_table_that_cannot_be_read_or_no_repository_is_no_history(
    project: Measured, tmp_path: Path
) -> None:
    table = project.root / "results/mine/load_points.csv"
    table.write_text("<<<<<<< HEAD\na,b\n=======\nc\n")
    project.commit()
    second = project.commit(project.rows({"bf16": 100}))
    assert commits(project, "bf16") == [second]
    pd.testing.assert_frame_equal(
        follow(read_history("mine", tmp_path / "elsewhere"), 0.03), follow([], 0.03)
    )
