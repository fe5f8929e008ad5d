"""What no import tells, and the layers of the code still forbid."""

import re
from graphlib import TopologicalSorter

import grimp

from tests.paths import ROOT

SOURCE = ROOT / "src/servetune"


def test_only_the_folder_of_an_engine_holds_names_of_its_metrics() -> None:
    named = re.compile(r"\bvllm:[a-z]\w+_\w+")
    holding = {
        file.relative_to(SOURCE).parent.as_posix()
        for file in SOURCE.rglob("*.py")
        if named.search(file.read_text())
    }
    assert holding == {"engines/vllm"}


def test_no_import_leads_back_to_where_it_began() -> None:
    graph = grimp.build_graph("servetune")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, which names the ring.
    assert len([*TopologicalSorter(imports).static_order()]) == len(imports)
