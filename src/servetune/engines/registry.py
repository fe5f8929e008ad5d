"""The engines that can serve, a row each."""

from collections.abc import Container

from servetune.engines.dialect import Dialect
from servetune.engines.llama_cpp.dialect import LLAMA_CPP
from servetune.engines.vllm.dialect import VLLM
from servetune.records.sessions import ServerFacts

DIALECTS = {each.name: each for each in (VLLM, LLAMA_CPP)}

EMPTY = Dialect(
    name="",
    title="",
    package="",
    command=(),
    program=(),
    placed=lambda *_: [],
    counters=lambda _: {},
    facts=lambda *_: ServerFacts(),
    explain=lambda *_: None,
    key_variable="",
)
"""An engine of which nothing is known but that it speaks the API."""

FIGURES = frozenset[str]().union(*(each.figures for each in DIALECTS.values()))
"""The names of all that any engine counts."""


def package_of(packages: Container[str]) -> str:
    """Return the package of the engine that an environment has; vLLM's where it names none."""
    return next((each.package for each in DIALECTS.values() if each.package in packages), "vllm")


def dialect_of(packages: Container[str]) -> Dialect:
    """Return the dialect of the engine that an environment has, by its packages.

    Raises:
        LookupError: it has none.
    """
    for each in DIALECTS.values():
        if each.package in packages:
            return each
    raise LookupError(f"none of {', '.join(DIALECTS)}")


def dialect_of_page(page: str) -> Dialect:
    """Return the dialect whose names a page of metrics has; the empty one where none has."""
    return next((each for each in DIALECTS.values() if each.page(page)), EMPTY)
