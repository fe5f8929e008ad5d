"""The recorded studies: their tables are those that the present code makes of their records."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from servetune.tables.write import write_tables
from tests.paths import ROOT
from tests.recorded import RECORDED, plan_of


@pytest.mark.parametrize("study", RECORDED)
def test_the_tables_of_a_recorded_study_are_those_of_its_records(
    study: str, tmp_path: Path
) -> None:
    kept, made = ROOT / "results" / study, tmp_path / "results" / study
    shutil.copytree(kept, made)
    write_tables(plan_of(study), made)
    for path in kept.glob("*.*"):
        if path.suffix == ".parquet":
            pd.testing.assert_frame_equal(
                pd.read_parquet(made / path.name), pd.read_parquet(path), obj=path.name
            )
        else:
            assert (made / path.name).read_text() == path.read_text(), path.name
