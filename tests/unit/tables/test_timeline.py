"""What the samples of a launch become: a small table that outlives them."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import raw_folder
from servetune.tables.timeline import BINS, COLUMNS, timeline
from tests.loads import load


def record(measurement: str, session: str = "bf16-r1-x") -> MeasurementRecord:
    return MeasurementRecord(
        measurement=measurement,
        study="mine",
        variant="bf16",
        workload="text",
        load_point=measurement,
        repeat=1,
        status="ok",
        session=session,
        launch=1,
        load=load(),
        server_command=[],
        load_command=[],
    )


def write_samples(root: Path, count: int, session: str = "bf16-r1-x", **columns: Any) -> None:
    """Samples every 0.25 s: idle, then half of them under each of two loads."""
    halves = ["c1"] * (count // 2) + ["c8"] * (count // 2)
    told = {
        "time_s": [1e9 + 0.25 * i for i in range(count + 4)],
        "measurement": ["", "", "", "", *halves],
        "requests_running": [0.0] * 4 + [1.0] * (count // 2) + [8.0] * (count // 2),
        "requests_waiting": 0.0,
        "kv_cache_usage_ratio": 0.5,
        "generation_tokens": [25.0 * i for i in range(count + 4)],
    }
    raw = raw_folder("mine", session, root)
    raw.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({**told, **columns}).to_parquet(raw / "telemetry-1.parquet")


def test_time_counts_from_the_first_load_and_counters_become_rates(tmp_path: Path) -> None:
    write_samples(tmp_path, 20)
    table = timeline([record("c1"), record("c8")], tmp_path)
    assert list(table.columns) == list(COLUMNS)
    assert table["time_s"].iloc[0] == 0
    assert table.groupby("measurement")["requests_running"].mean().to_dict() == {"c1": 1, "c8": 8}
    assert table["output_throughput_tok_s"].dropna().unique() == pytest.approx([100])


def test_a_long_load_is_reduced_to_what_a_chart_can_show(tmp_path: Path) -> None:
    write_samples(tmp_path, 4000)
    table = timeline([record("c1"), record("c8")], tmp_path)
    assert (table.groupby("measurement").size() <= BINS).all()
    assert table["output_throughput_tok_s"].dropna().to_numpy() == pytest.approx(100)


def test_acceptance_is_that_of_the_drafts_between_two_rows(tmp_path: Path) -> None:
    steps = list(range(24))
    write_samples(
        tmp_path,
        20,
        drafts=[10.0 * i for i in steps],
        accepted_tokens=[15.0 * i for i in steps],
        accepted_tokens_at_0=[9.0 * i for i in steps],
        accepted_tokens_at_1=[6.0 * i for i in steps],
    )
    row = timeline([record("c1"), record("c8")], tmp_path).iloc[5]
    assert row["acceptance_length"] == 2.5
    assert list(row["acceptance_by_position"]) == pytest.approx([0.9, 0.6])


def test_a_launch_whose_samples_are_not_here_has_what_was_kept_of_them(tmp_path: Path) -> None:
    """As in a clone without the remote, in which one more variant is measured."""
    write_samples(tmp_path, 20)
    before = timeline([record("c1"), record("c8")], tmp_path)
    shutil.rmtree(raw_folder("mine", "bf16-r1-x", tmp_path))
    write_samples(tmp_path, 20, session="other-r1-x")
    records = [record("c1"), record("c8"), record("c1", "other-r1-x")]
    after = timeline(records, tmp_path)
    assert after[after["session"] == "bf16-r1-x"].equals(before)
    assert set(after["session"]) == {"bf16-r1-x", "other-r1-x"}
    assert timeline(records[:1], tmp_path)["measurement"].unique().tolist() == ["c1"]


def test_a_launch_that_went_on_is_told_of_to_its_end(tmp_path: Path) -> None:
    write_samples(tmp_path, 20)
    assert set(timeline([record("c1")], tmp_path)["measurement"]) == {"c1"}
    assert set(timeline([record("c1"), record("c8")], tmp_path)["measurement"]) == {"c1", "c8"}


def test_without_samples_there_is_an_empty_table(tmp_path: Path) -> None:
    assert timeline([record("c1")], tmp_path).empty
    write_samples(tmp_path, 20, requests_running=0.0)
    assert list(timeline([record("c1")], tmp_path).columns) == list(COLUMNS)


def test_what_was_kept_of_a_load_outlives_samples_without_it(tmp_path: Path) -> None:
    """As where a session went on in a clone, which has no samples of what came before."""
    write_samples(tmp_path, 20)
    before = timeline([record("c1")], tmp_path)
    write_samples(tmp_path, 20, measurement=[""] * 4 + ["c8"] * 20)
    after = timeline([record("c1"), record("c8")], tmp_path)
    assert after[after["measurement"] == "c1"].equals(before)
    assert len(after[after["measurement"] == "c8"])
