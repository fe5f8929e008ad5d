"""What a bundle demands of the host that measures."""

import sys

import grimp

from servetune.bundle.start import NEEDED

BROUGHT = {"pydantic_core", "tokenizers", "typing_extensions"}
"""With vLLM or with what is demanded."""

NOT_THERE = {"ruamel"}
"""What reads studies and parameters, which the host of a bundle does not."""


def test_a_bundle_demands_what_measuring_imports_and_nothing_else() -> None:
    graph = grimp.build_graph("servetune", include_external_packages=True)
    modules = graph.find_upstream_modules("servetune.bundle.host")
    imported = {name for name in modules if not name.startswith("servetune")}
    demanded = {*NEEDED, *BROUGHT} - {"pyarrow"}  # by which pandas writes Parquet
    assert imported - set(sys.stdlib_module_names) - NOT_THERE == demanded
