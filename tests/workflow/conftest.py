from pathlib import Path

import pytest

from tests.workspace import Workspace, copy_tree, make_workspace

NO_SUCH_PROXY = "http://127.0.0.1:9"


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of environments of its own, which holds the stand-in's description."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def workspace(tmp_path: Path, engine_cache: Path) -> Workspace:
    """A fresh clone, in which nothing was measured yet."""
    return make_workspace(tmp_path / "workspace", engine_cache)


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace after the first run with its cache; `measured` gives each test a copy of it.

    It ran on a host that reaches others through a proxy, which its own servers are not behind.
    """
    folder = tmp_path_factory.mktemp("measured")
    made = make_workspace(folder / "workspace", folder / "cache")
    made.environment["HTTP_PROXY"] = NO_SUCH_PROXY
    made.first_output = made.measure()
    return made


@pytest.fixture
def measured(measured_once: Workspace, tmp_path: Path) -> Workspace:
    """A copy of a workspace after its first run, Snakemake's metadata included."""
    root = tmp_path / "workspace"
    copy_tree(measured_once.root, root)
    copy = Workspace(root, Path(measured_once.environment["SERVETUNE_CACHE"]))
    copy.first_output = measured_once.first_output
    return copy
