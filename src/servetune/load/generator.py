"""What servetune asks of a load generator. A new kind is one file and a line in `registry`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Target:
    """Where a load goes, and what it is made of."""

    url: str
    served_name: str
    tokenizer: Path
    dataset: Path
    raw: Path
    """The folder that takes the generator's own output, untouched."""


@dataclass(frozen=True)
class Generator:
    """One load generator.

    `environment` is the tool environment that holds it, or None for the engine's own;
    `client` the module that runs there and takes one load point after another,
    with the API key in the variable `key_variable`; `command` the
    words that a user would type; `arguments` the further words for a load point; `read` turns
    its raw output into a request table; `refuses` says why it cannot do a load with a kind of
    dataset that has so many requests, or None.
    """

    name: str
    environment: str | None
    client: str
    key_variable: str
    command: tuple[str, ...]
    arguments: Callable[[dict[str, Any], Target], list[str]]
    read: "Callable[[Path], pd.DataFrame]"
    refuses: Callable[[dict[str, Any], str, int], str | None]
