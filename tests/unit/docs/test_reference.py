"""The keys that a user may declare are described, in the docs and in the editor."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.paths import GALLERY, ROOT

SCHEMA = ROOT / "studies/study.schema.json"
STUDIES = [file for home in (ROOT, GALLERY) for file in sorted(home.glob("studies/*.yaml"))]
REFERENCE = runpy.run_path(str(ROOT / "docs/reference.py"))


def check(*studies: Path) -> subprocess.CompletedProcess[str]:
    """Check studies as an editor does."""
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(SCHEMA)]
    return subprocess.run([*command, *map(str, studies)], capture_output=True, text=True)


def test_the_reference_and_the_schema_are_those_of_the_models() -> None:
    for path, text in REFERENCE["generated"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: uv run python docs/reference.py"


def test_every_key_has_a_description() -> None:
    schema = REFERENCE["study_schema"]()
    for name, part in {"Study": schema, **schema["$defs"]}.items():
        if name != "ServerArguments":
            for key, value in part.get("properties", {}).items():
                assert "description" in value or "const" in value, f"{name}.{key}"


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_every_study_names_the_schema(study: Path) -> None:
    first = study.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema={SCHEMA.name}"


def test_the_schema_accepts_every_study() -> None:
    checked = check(*STUDIES)
    assert checked.returncode == 0, checked.stdout


def test_an_editor_flags_what_the_plan_would_refuse(tmp_path: Path) -> None:
    def changed(name: str, *path: str | int, value: Any) -> Path:
        study = yaml.safe_load((ROOT / "studies/quickstart.yaml").read_text(encoding="utf-8"))
        place = study
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(study), encoding="utf-8")
        return file

    wrong = {
        "max_num_seq": changed("argument", "server", "max_num_seq", value=4),
        "port": changed("owned", "server", "port", value=80),
        "bflot16": changed("choice", "server", "dtype", value="bflot16"),
        "modl": changed("key", "variants", "bf16", "modl", value="tiny"),
        "3 percent": changed("percentage", "equivalence", value="3 percent"),
    }
    flagged = check(*wrong.values()).stdout.splitlines()
    for said, file in wrong.items():
        assert any(file.name in line and said in line for line in flagged), said
    fine = (
        changed("fine", "server", "max_num_seqs", value=None),
        changed("p", "equivalence", value="3%"),
    )
    assert check(*fine).returncode == 0
