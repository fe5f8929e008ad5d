"""A checkpoint in a folder is whole before anything starts."""

import json
from pathlib import Path

import pytest

from servetune.errors import UserError
from servetune.plan.make import make_plan
from tests.bad_inputs import CONFIG, LFS_POINTER
from tests.project import Project

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def checkpoint(project: Project) -> Path:
    """A model of the study in two shards."""
    folder = project.root / "own"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    weights = {f"layer.{i}": shard for i, shard in enumerate(SHARDS)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    for shard in SHARDS:
        (folder / shard).write_bytes(b"\0" * 64)
    study = project.study()
    study["models"]["tiny"] = {"source": "path", "path": "own"}
    project.write_study(study)
    return folder


def refused(project: Project) -> str:
    with pytest.raises(UserError) as caught:
        make_plan(project.params, project.root)
    return str(caught.value).removeprefix("studies/quickstart.yaml: models.tiny: own: ")


def test_a_whole_checkpoint_is_planned(project: Project, checkpoint: Path) -> None:
    assert make_plan(project.params, project.root).models


def test_a_shard_that_is_not_there_is_named(project: Project, checkpoint: Path) -> None:
    (checkpoint / SHARDS[1]).unlink()
    assert refused(project) == (
        f"{SHARDS[1]}: missing, but model.safetensors.index.json names it; download the"
        " checkpoint again"
    )
    (checkpoint / SHARDS[0]).unlink()
    assert refused(project).startswith(f"{SHARDS[0]}: missing, but ")
    assert "(and 1 more)" in refused(project)


@pytest.mark.parametrize("name", [SHARDS[0], "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_named(project: Project, checkpoint: Path, name: str) -> None:
    (checkpoint / name).write_bytes(LFS_POINTER)
    assert refused(project) == (
        f"{name}: a pointer of Git LFS in place of the file; run git lfs pull there"
    )
