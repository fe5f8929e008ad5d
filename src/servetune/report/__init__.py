"""Render a plan and its tables: `summary.html`, `summary.md` and the table in the terminal."""

from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.terminal import render_terminal

__all__ = ["render_html", "render_markdown", "render_terminal"]
