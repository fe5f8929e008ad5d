"""What MkDocs does not know of this repository: pages outside docs/, the DAG, recorded reports.

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

from servetune.engines.environments import cache_root
from servetune.files import write_text
from servetune.plan.make import make_plan, read_params
from servetune.plan.planned import Plan
from servetune.report.html import render_html
from servetune.report.reading import read_partial
from servetune.tables.freshness import report_digest

ROOT = Path(__file__).resolve().parents[1]
DOCS, GALLERY = ROOT / "docs", ROOT / "gallery"
ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
ROOT_PAGES |= {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
ROOT_PAGES |= {
    str(page.relative_to(ROOT)): f"gallery/{page.name}" for page in ROOT.glob("gallery/docs/*.md")
}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
REPORTS = "<!-- the reports -->"
DIAGRAM = re.compile(r"```mermaid\n.*?```", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages of the repository's root and the gallery, and the reports of recorded studies."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for plan in recorded_plans():
        report = str(rendered(plan))
        files.append(File.generated(config, f"reports/{plan.study}.html", abs_src_path=report))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw the DAG for a Mermaid diagram, list the reports for their comment, and resolve links
    out of docs/.
    """
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
            if path.endswith(".md") and name not in ROOT_PAGES:
                return link[1]  # no page of the site: the build refuses it
            if files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(target)))
        return os.path.relpath(path, Path(page.file.src_uri).parent)

    if REPORTS in markdown:
        to_reports = os.path.relpath("reports", Path(page.file.src_uri).parent)
        listed = (
            f"- [{p.study}]({to_reports}/{p.study}.html): {p.question}" for p in recorded_plans()
        )
        markdown = markdown.replace(REPORTS, "\n".join(listed))
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


@cache
def recorded_plans() -> list[Plan]:
    """Plan each recorded study."""
    params = {**read_params(GALLERY), "variants": "all"}
    tables = sorted(GALLERY.glob("results/*/load_points.csv"))
    return [make_plan({**params, "study": table.parent.name}, GALLERY) for table in tables]


def rendered(plan: Plan) -> Path:
    """Render the report of a recorded study, unless the cache has it."""
    page = cache_root() / "reports" / f"{report_digest(plan, GALLERY)}.html"
    if not page.is_file():
        write_text(page, render_html(read_partial(plan, GALLERY)))
    return page
