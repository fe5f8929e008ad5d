"""What a step is wanted to have, and how Snakemake is told that it has something else."""

from pathlib import Path

import pytest

from servetune.tables.freshness import wanted, write_stamp


def test_going_back_to_an_earlier_digest_is_told_apart_from_having_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stamp = Path("tables.sha256")
    asked = Path(wanted(str(stamp), "no records").path)
    first = asked.read_text()
    write_stamp(stamp, "all records")
    assert wanted(str(stamp), "all records").is_current
    assert asked.read_text() == first
    assert not wanted(str(stamp), "no records").is_current
    assert asked.read_text() != first
