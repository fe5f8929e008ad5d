"""What MkDocs does not know of this repository: pages outside docs/, and the DAG as it is drawn.

A link that works on GitHub works on the site: to a page of the repository's root, which becomes a
page, or to any other file, which is copied. A link to a file that does not exist stays as it is,
and `mkdocs build --strict` refuses it.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pygraphviz
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
ROOT_PAGES |= {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
DIAGRAM = re.compile(r"```mermaid\n.*?```|<!-- the DAG -->", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw the DAG for its comment and for a Mermaid diagram, and resolve links out of docs/."""
    here = Path(page.file.abs_src_path or "").parent

    def resolve(link: re.Match[str]) -> str:
        target = (here / link[1]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return link[1]
        if target.is_relative_to(DOCS):
            path = str(target.relative_to(DOCS))
        else:
            name = str(target.relative_to(ROOT))
            path = ROOT_PAGES.get(name, name)
            if files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(target)))
        return os.path.relpath(path, Path(page.file.src_uri).parent)

    if DIAGRAM.search(markdown):
        markdown = DIAGRAM.sub(lambda _: draw_dag(), markdown)
    return LINK.sub(resolve, markdown)


@cache
def draw_dag() -> str:
    """The rules of the quickstart and what each waits for, as Snakemake draws them, in SVG."""
    command = ["snakemake", "--quiet=all", "--rulegraph=dot", "--config"]
    command += ["study=quickstart", "variants=all"]
    dot = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    svg = pygraphviz.AGraph(string=dot).draw(prog="dot", format="svg").decode()
    return f"<div>{svg[svg.index('<svg') :]}</div>"
