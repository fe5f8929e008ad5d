"""What a bundle demands of the host that measures."""

import sys
import zipfile
from pathlib import Path

import grimp
import pytest

from servetune.bundle.start import NEEDED, TO_TUNE, taken, unpack

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


@pytest.mark.parametrize(
    ("words", "value", "others"),
    [
        (["--folder", "there", "--results", "r"], "there", ["--results", "r"]),
        (["--results", "r", "--folder=there"], "there", ["--results", "r"]),
        (["--results", "--folder"], None, ["--results", "--folder"]),
    ],
)
def test_where_to_unpack_is_told_in_one_word_or_two(
    words: list[str], value: str | None, others: list[str]
) -> None:
    assert taken(words, "--folder") == value
    assert words == others


def test_unpacking_again_keeps_results_and_what_another_run_serves_from(tmp_path: Path) -> None:
    bundle, folder = tmp_path / "b.pyz", tmp_path / "folder"
    record, weights = "project/results/s/records/a.json", "project/data/models/m/model.safetensors"
    with zipfile.ZipFile(bundle, "w") as content:
        content.writestr(record, "as it was exported")
        content.writestr(weights, "weights")
    unpack(bundle, folder)
    (folder / record).write_text("as it was measured here")
    with (folder / weights).open() as served:
        before = (folder / weights).stat().st_ino
        unpack(bundle, folder)
        assert served.read() == "weights" and (folder / weights).stat().st_ino != before
    assert (folder / record).read_text() == "as it was measured here"
    assert [path.name for path in folder.iterdir()] == ["project"]
