"""What a bundle demands of the host that measures."""

import sys

import grimp

from servetune.bundle.start import NEEDED, TO_TUNE

BROUGHT = {"packaging", "pydantic_core", "referencing", "tokenizers", "typing_extensions"}
"""With vLLM or with what is demanded."""

NOT_THERE = {"ruamel", "yaml"}
"""What reads studies and parameters, which the host of a bundle does not."""


def imported_by(graph: grimp.ImportGraph) -> set[str]:
    # The client is a process of its own.
    started = ("servetune.bundle.host", "servetune.load.client.http")
    modules = {name for root in started for name in graph.find_upstream_modules(root)}
    imported = {name for name in modules if not name.startswith("servetune")}
    return imported - set(sys.stdlib_module_names) - NOT_THERE


def test_a_bundle_demands_what_it_imports_and_nothing_else() -> None:
    graph = grimp.build_graph("servetune", include_external_packages=True)
    demanded = {*NEEDED, *BROUGHT}
    assert imported_by(graph) == {*demanded, *TO_TUNE}
    graph.remove_module("servetune.bundle.rounds")
    assert imported_by(graph) == demanded
