"""What a comparison reads of a revision's results."""

from pathlib import Path

from servetune.compare.sides import workspace_side
from tests.paths import GALLERY


def test_distributions_are_of_what_the_table_calls_ok_whatever_a_record_says(
    tmp_path: Path,
) -> None:
    # The study left out the rule of texts after some of its records were written.
    (tmp_path / "params.yaml").write_text("study: h100-detokenizing\n")
    for folder in ("studies", "results"):
        (tmp_path / folder).symlink_to(GALLERY / folder)
    side = workspace_side(tmp_path)
    assert (side.table["status"] == "ok").all()
    assert set(side.quantiles["measurement"]) == set(side.table["measurement"])
