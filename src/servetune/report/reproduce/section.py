"""How to measure it again."""

from servetune.analysis.wording import plural
from servetune.errors import RUN
from servetune.report.gfm import bullets, details, fence, text
from servetune.report.measured import Measured
from servetune.report.provenance import checkouts, launches_of
from servetune.report.section import Section
from servetune.report.setup.section import setup

STEPS = {
    "Measure what is missing and render this report": RUN,
    "Measure with another value of one parameter": "uv run dvc exp run -S max_num_seqs=16",
    "Compare its metrics with these": "uv run dvc metrics diff",
}
"""The commands that reproduce the report and vary it, by purpose."""


def section(measured: Measured) -> Section:
    """Make the section; with one commit that measured, its code is the first step."""
    launches = launches_of(measured.table, measured.sessions)
    commits = checkouts(launches)
    steps = STEPS
    if len(commits) == 1:
        steps = {"Take the code that measured": f"git checkout {commits[0]}", **STEPS}
    return Section(
        "reproduce",
        "How to reproduce",
        steps,
        markdown=lambda fit: _markdown(measured, steps),
        counts=plural(len(steps), "step"),
    )


def _markdown(measured: Measured, steps: dict[str, str]) -> str:
    items = [f"{term}: {text('; '.join(values))}" for term, values in setup(measured).items()]
    shell = "\n".join(f"{command}  # {purpose.lower()}" for purpose, command in steps.items())
    return details("Setup and how to reproduce", f"{bullets(items)}\n\n{fence(shell, 'sh')}")
