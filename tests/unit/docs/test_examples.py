"""What the docs show can be typed: commands and options that exist, and keys that a study takes."""

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator

from servetune.cli.app import app
from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`((?:uv run )?servetune [^`…]+)`")
TASKS = ("What to measure", "What to send", "What to find out", "Run it", "Decide and ship")
PARTS_OF_A_STUDY = {
    "capacity.md": {"slo"},
    "feared-loads.md": {"classes"},
    "embeddings.md": {"classes"},
}
"""Pages with an example that is a part of a section, or of another tool, by its first key."""


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `servetune` command of a page, after its name."""
    text = page.read_text("utf-8")
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    for line in [*lines, *INLINE.findall(text)]:
        for part in re.split(r"&&|;|\|", line):
            if re.match(r"\s*(uv run |uvx .*)?servetune ", part):
                words = shlex.split(part, comments=True)
                yield words[words.index("servetune") + 1 :]


@cache
def tree() -> Any:
    return typer.main.get_command(app)


def unknown(words: list[str]) -> str | None:
    """The first word of a command that servetune does not know."""
    command: Any = tree()
    options = {"--help"} | {each for known in command.params for each in known.opts}
    for word in words:
        if word in (">", "--"):
            return None
        if hasattr(command, "commands") and not word.startswith("-"):
            if word not in command.commands:
                return word
            command = command.commands[word]
            options = {"--help"} | {each for known in command.params for each in known.opts}
        elif word.startswith("--") and word.partition("=")[0] not in options:
            return word
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_of_a_page_exists(page: Path) -> None:
    assert {" ".join(words): word for words in commands(page) if (word := unknown(words))} == {}


def test_the_pages_hold_commands_to_check() -> None:
    assert len([words for page in PAGES for words in commands(page)]) > 60


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_script_that_a_page_runs_exists(page: Path) -> None:
    named = re.findall(r"\b(?:benchmarks|tests)/[\w/]+\.\w+", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_example_of_a_study_has_keys_and_values_that_a_study_takes(page: Path) -> None:
    schema = json.loads((ROOT / "studies/study.schema.json").read_text("utf-8"))
    parts = Draft202012Validator({**schema, "required": []})
    for text in blocks(page, "yaml"):
        example = yaml.safe_load(text)
        if {*example} & PARTS_OF_A_STUDY.get(page.name, set()):
            continue
        told = [f"{error.json_path}: {error.message[:200]}" for error in parts.iter_errors(example)]
        assert told == [], text


def _tasks() -> list[str]:
    class Loader(yaml.SafeLoader):
        """MkDocs' file names Python functions, which nothing here needs."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)
    sections = {
        name: pages
        for part in config["nav"]
        if isinstance(part, dict)
        for name, pages in part.items()
    }
    return [page for name in TASKS for page in sections[name]]


@pytest.mark.parametrize("page", _tasks())
def test_the_page_of_a_task_has_an_example_and_fewer_than_900_words(page: str) -> None:
    path = ROOT / "docs" / page
    assert len(path.read_text("utf-8").split()) < 900
    assert blocks(path, "sh") or blocks(path, "yaml")


def test_every_task_is_among_the_tasks() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/tasks.md").read_text("utf-8"))
    assert listed == _tasks()
