"""How the pages rank in the site's search: those of a task before those of how it works."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LEFT_OUT = ("changelog.md", "contributing.md", "examples/", "reports/")
LATER = ("gallery/", "design.md", "security.md", "reference/")
TASKS = ("What to measure", "What to send", "What to find out", "Run it", "Decide and ship")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Tell the search how much a page counts, or to leave it out."""
    path = page.file.src_uri
    section = page.ancestors[0].title if page.ancestors else None
    if path.startswith(LEFT_OUT):
        page.meta["search"] = {"exclude": True}
    elif path.startswith(LATER):
        page.meta["search"] = {"boost": 0.5}
    elif section in TASKS:
        page.meta["search"] = {"boost": 2}
    return markdown
