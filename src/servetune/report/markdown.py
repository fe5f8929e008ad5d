"""`summary.md`: the report in what fits a comment on a pull request."""

from servetune.errors import reason_of
from servetune.report.gfm import text
from servetune.report.lacks import lack
from servetune.report.measured import Measured
from servetune.report.section import Fit, Section, sections

LIMIT = 60_000
"""Characters; GitHub refuses a comment above 65,536."""

FITS = (Fit(), Fit(commands=False), Fit(logs=False, commands=False), Fit(100, False, False))
"""What is left out to fit a comment, from the end: commands, then logs, then rows."""


def render_markdown(measured: Measured) -> str:
    """Render the report as GitHub-flavoured Markdown; where it is shortened, the text says so."""
    made = sections(measured)
    for fit in FITS:
        if len(document := _document(measured, made, fit)) <= LIMIT:
            break
    return document


def _document(measured: Measured, made: list[Section], fit: Fit) -> str:
    blocks = [
        f"## servetune: {text(measured.plan.study)}",
        f"**{text(measured.plan.question)}**",
        *(_block(measured, section, fit) for section in made),
        None if fit == Fit() else "_Shortened; summary.html holds all._",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _block(measured: Measured, section: Section, fit: Fit) -> str | None:
    """Write a section, or what of it could not be made."""
    try:
        written = section.markdown(fit)
        lacks = section.marks
    except Exception as error:
        written, lacks = None, [lack(f"The section {section.title}", reason_of(error))]
        measured.lacks.extend(line for line in lacks if line not in measured.lacks)
    blocks = [*(f"> {text(line)}." for line in lacks), written]
    return "\n\n".join(block for block in blocks if block)
