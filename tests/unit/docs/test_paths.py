"""The docs name files, folders and rules that exist."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

PAGES = [
    file
    for name in ("", "docs", "gallery", "gallery/docs")
    for file in ROOT.joinpath(name).glob("*.md")
]
NAMED = re.compile(
    r"`((?:\.ci|benchmarks|data/published|docs|gallery|src|studies|tests|workflow)/[^` ]*)`"
)
RULE = re.compile(r"^(?:rule|checkpoint) (\w+):", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_of_the_repository_that_a_page_names_exists(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    own = (path for path in named if not re.search(r"[<*]|mine|NAME", path))
    assert [path for path in own if not (ROOT / path).exists()] == []


def test_the_page_of_how_it_works_names_every_rule() -> None:
    rules = {
        name
        for file in (ROOT / "workflow/rules").glob("*.smk")
        for name in RULE.findall(file.read_text(encoding="utf-8"))
    }
    page = (ROOT / "docs/pipeline.md").read_text(encoding="utf-8")
    assert rules == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_each_promise_of_the_security_page_names_a_test_that_keeps_it() -> None:
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    promises = [row for row in rows if not re.fullmatch(r" Promise |[- ]+", row[0])]
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert promises
    for promise, keepers in promises:
        names = re.findall(r"`(test_\w+)`", keepers)
        assert names, promise
        assert [name for name in names if f"def {name}(" not in tests] == []
