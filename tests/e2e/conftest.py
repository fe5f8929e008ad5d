import pytest

from tests.e2e.clone import Clone, make_clone


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone in which the quickstart study was measured once."""
    made = make_clone(tmp_path_factory.mktemp("quickstart") / "servetune")
    print(made.measure())
    return made
