"""The studies recorded whole in gallery/, and the plans that their tables were made from.

After a change of what tables are made with: `uv run python tests/recorded.py` makes them again.
"""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from servetune.plan.make import make_plan, read_params
from servetune.plan.planned import Plan
from servetune.tables.freshness import tables_digest, write_stamp
from servetune.tables.write import write_tables
from tests.paths import GALLERY, home_of

RECORDED = sorted(path.parent.name for path in GALLERY.glob("results/*/load_points.csv"))
_MADE = TemporaryDirectory(prefix="servetune-recorded-")


def plan_of(study: str, params: dict[str, Any] | None = None) -> Plan:
    """Plan a recorded study."""
    return make_plan(
        {**(params or {}), "study": study, "variants": "all", "seed": 0}, home_of(study)
    )


@cache
def results_of(study: str) -> Path:
    """Copy the results of a recorded study into a project of their own and make its tables."""
    project = Path(_MADE.name) / study
    made = project / "results" / study
    project.mkdir(parents=True)
    (project / "studies").symlink_to(GALLERY / "studies")
    shutil.copytree(GALLERY / "results" / study, made)
    write_tables(plan_of(study), made)
    return made


if __name__ == "__main__":
    for study in RECORDED:
        # The stamp is over all of the parameters, those that are not set too.
        plan = plan_of(study, read_params(GALLERY))
        results = GALLERY / "results" / study
        write_tables(plan, results)
        write_stamp(results / "tables.sha256", tables_digest(plan, GALLERY))
        print(results)
