"""What a host gives back is taken as what was measured there, or refused."""

import json
import shutil
from pathlib import Path

import pytest

from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.bundle.results import pack_results, take_results
from servetune.errors import UserError
from servetune.files import write_json
from tests.paths import ROOT
from tests.recorded import plan_of

STUDY = "phi4-shape"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A host's project, which holds a manifest and the records of a study."""
    made = tmp_path / "there"
    plan = plan_of(STUDY)
    manifest = Manifest(study=STUDY, sessions=plan.sessions, engines={})
    write_json(made / MANIFEST, manifest)
    shutil.copytree(ROOT / "results" / STUDY / "records", made / "results" / STUDY / "records")
    return made


def packed(project: Path) -> Path:
    manifest = Manifest.model_validate_json((project / MANIFEST).read_bytes())
    pack_results(manifest, project, project / "out.tar.gz", has_output=False)
    return project / "out.tar.gz"


def test_every_record_that_was_measured_there_is_here_afterwards(
    project: Path, tmp_path: Path
) -> None:
    folder = Path("results", STUDY, "records")
    counts = take_results(packed(project), tmp_path / "here")
    names = {path.name for path in (project / folder).iterdir()}
    assert counts["measurements"] == len(names) > 0
    assert {path.name for path in (tmp_path / "here" / folder).iterdir()} == names


@pytest.mark.parametrize("field", ["study", "measurement", "variant"])
def test_a_record_of_something_else_than_its_name_says_is_refused(
    project: Path, tmp_path: Path, field: str
) -> None:
    file = min((project / "results" / STUDY / "records").iterdir())
    file.write_text(json.dumps({**json.loads(file.read_text()), field: "../../elsewhere"}))
    with pytest.raises(UserError, match=file.name):
        take_results(packed(project), tmp_path / "here")
