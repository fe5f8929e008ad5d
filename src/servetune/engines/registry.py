"""The dialects of all engines."""

from collections.abc import Container, Mapping
from importlib import import_module

from servetune.engines.dialect import Dialect
from servetune.records.sessions import ServerFacts
from servetune.study.families import FAMILIES, VLLM, EngineFamily

DIALECTS: dict[str, Dialect] = {
    family.name: import_module(family.dialect).DIALECT for family in FAMILIES
}

EMPTY = Dialect(
    family=EngineFamily(name="", title="", dialect="", package=""),
    command=(),
    program=(),
    placed=lambda *_: [],
    counters=lambda _: {},
    facts=lambda *_: ServerFacts(),
    explain=lambda *_: None,
    key_variable="",
)
"""An engine of which nothing is known but that it speaks the API."""

FIGURES = frozenset[str]().union(*(dialect.figures for dialect in DIALECTS.values()))
"""The names of all that any engine counts."""


def family_in(packages: Container[str]) -> EngineFamily | None:
    """Return the family of the engine that an environment has, by its packages; None: none."""
    return next((family for family in FAMILIES if family.package in packages), None)


def package_of(packages: Container[str]) -> str:
    """Return the package of the engine that an environment has; vLLM's where it names none."""
    return (family_in(packages) or VLLM).package


def program_of(versions: Mapping[str, str]) -> str:
    """Return what takes the arguments of a server of an environment, with its version."""
    family = family_in(versions) or VLLM
    return " ".join([family.title, versions.get(family.package, "")]).strip()


def dialect_of(packages: Container[str]) -> Dialect:
    """Return the dialect of the engine that an environment has, by its packages.

    Raises:
        LookupError: it has none.
    """
    if family := family_in(packages):
        return DIALECTS[family.name]
    raise LookupError(f"none of {', '.join(DIALECTS)}")


def dialect_of_page(page: str) -> Dialect:
    """Return the dialect whose names a page of metrics has; the empty one where none has."""
    return next((dialect for dialect in DIALECTS.values() if dialect.page(page)), EMPTY)
