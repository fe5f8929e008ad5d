import shutil
from collections.abc import Callable

import pytest

from clone import Clone, make_clone


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which the quickstart study was measured once."""
    made = make_clone(tmp_path_factory.mktemp("quickstart") / "servetune")
    print(made.measure())
    return made


@pytest.fixture(scope="session")
def clone_with_models(
    quickstart: Clone, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Clone]:
    """Makes clones that were never measured in, with the models of the quickstart."""

    def make() -> Clone:
        made = make_clone(tmp_path_factory.mktemp("clone") / "servetune")
        shutil.copytree(quickstart.root / "data/models", made.root / "data/models")
        return made

    return make
