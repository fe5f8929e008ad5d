"""GuideLLM's data loader, without the process that it starts for every load.

That process delays the first requests by a few tenths of a second, past their time in an open
loop; its own `num_workers=0` GuideLLM cannot start.
"""

from collections.abc import Iterator
from typing import Any

from guidellm.data.loaders import DataLoaderRegistry
from guidellm.data.loaders.torch import TorchDataLoader


class InProcessLoader(TorchDataLoader):  # type: ignore[misc]
    """The loader `pytorch`, read where it is asked."""

    def __iter__(self) -> Iterator[Any]:
        rows: Iterator[Any] = iter(self.dataset)
        return rows


def install() -> None:
    """Let GuideLLM use it."""
    DataLoaderRegistry.registry["pytorch"] = InProcessLoader
