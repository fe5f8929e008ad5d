import shutil
from pathlib import Path

import pytest
import yaml

from workspace import COPIED, ROOT, STUDY, Workspace


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of environments of its own, which holds the stand-in's description."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def workspace(tmp_path: Path, engine_cache: Path) -> Workspace:
    """A fresh clone, in which nothing was measured yet."""
    return make_workspace(tmp_path / "workspace", engine_cache)


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A workspace after its first run; `measured` gives each test a copy of it."""
    made = make_workspace(tmp_path_factory.mktemp("measured") / "workspace", engine_cache)
    made.first_output = made.measure()
    return made


@pytest.fixture
def measured(measured_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy of a workspace after its first run, Snakemake's metadata included."""
    root = tmp_path / "workspace"
    shutil.copytree(measured_once.root, root)
    copy = Workspace(root, Path(measured_once.environment["SERVETUNE_CACHE"]))
    copy.first_output = measured_once.first_output
    return copy


def make_workspace(root: Path, engine_cache: Path) -> Workspace:
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in (*COPIED, ".dvc/config", ".dvc/.gitignore", ".dvc/plots"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, root / name)
    (root / "model").mkdir()
    (root / "model/config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    (root / "params.yaml").write_text(yaml.safe_dump({**params, "study": "standin"}))

    made = Workspace(root, engine_cache)
    made.write_study(STUDY)
    made.check("git", "init", "-q", "-b", "main")
    made.commit("A study")
    return made
