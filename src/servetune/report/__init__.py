"""Render a plan and its tables: `summary.html`, `summary.md` and the table in the terminal."""
