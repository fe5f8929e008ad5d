from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent
FOLDERS = ("e2e", "workflow", "browser", "unit", "slurm")
"""The longest first, so that the short ones fill up the end."""

SERVED_ONCE = ("test_quickstart.py", "test_unfit_servers.py")
"""The files of e2e that read one set of launches."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FOLDERS.index(item.path.relative_to(TESTS).parts[0]))


class SharingFixtures(LoadFileScheduling):  # type: ignore[misc]
    """Keeps on one worker what shares its fixtures: a file, and all that real vLLM serves."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "vllm" if Path(file).name in SERVED_ONCE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingFixtures:
    return SharingFixtures(config, log)
