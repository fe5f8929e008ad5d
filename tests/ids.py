"""The ids of all that the project's studies plan, as tests/data/ids.json keeps them.

After a change that is meant to change ids, such as a new lock: `uv run python tests/ids.py`
"""

import json
from pathlib import Path
from typing import Any

from servetune.plan.identity import digest
from servetune.plan.make import make_plan
from servetune.plan.probes import pilot
from tests.paths import GALLERY, ROOT, home_of

KEPT = Path(__file__).with_name("data") / "ids.json"
STUDIES = sorted(path.stem for home in (ROOT, GALLERY) for path in home.glob("studies/*.yaml"))


def declaration(study: str) -> str:
    """Return a digest of a study's file without its comment lines."""
    lines = (home_of(study) / "studies" / f"{study}.yaml").read_text().splitlines()
    return digest([line for line in lines if line.strip() and not line.lstrip().startswith("#")])


def ids(study: str, **params: Any) -> dict[str, Any]:
    """Plan a study with the parameters at their defaults; returns the ids by kind."""
    params = {"study": study, "variants": "all", "seed": 0, **params}
    plan = make_plan(params, home_of(study))
    return {
        "engines": sorted(plan.engines),
        "models": sorted(plan.models),
        "datasets": sorted(plan.datasets),
        "sessions": [session.id for session in sorted(plan.sessions, key=lambda s: s.order)],
        "measurements": [measurement.id for measurement in plan.measurements],
        "searches": {search.id: pilot(search).id for search in plan.searches},
        "quality": [quality.id for quality in plan.qualities],
    }


if __name__ == "__main__":
    kept = {study: {"declaration": declaration(study), **ids(study)} for study in STUDIES}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
