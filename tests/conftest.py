from pathlib import Path

import pytest

FOLDERS = ("e2e", "workflow", "browser", "unit")
"""The longest first, so that the short ones fill up the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep on one worker what shares its fixtures: a file, and all that real vLLM serves."""
    for item in items:
        serves = {"quickstart", "loaded"} & set(getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group("vllm" if serves else str(item.path)))
    tests = Path(__file__).parent
    items.sort(key=lambda item: FOLDERS.index(item.path.relative_to(tests).parts[0]))
