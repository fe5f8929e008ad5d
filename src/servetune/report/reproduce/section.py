"""How to measure it again."""

import pandas as pd

from servetune.records.sessions import SessionRecord
from servetune.report.gfm import bullets, details, fence, text
from servetune.report.measured import Measured
from servetune.report.provenance import launches_of
from servetune.report.section import Section
from servetune.report.setup.section import setup

REPORT = "uv run snakemake --cores 1 reports/summary.html"


def section(measured: Measured) -> Section:
    """Make the section."""
    steps = reproduction(measured.table, measured.sessions)
    return Section(
        "reproduce",
        "How to reproduce",
        steps,
        markdown=lambda fit: _markdown(measured, steps),
        link="Reproduce",
    )


def reproduction(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[tuple[str, str]]:
    """Give the commands that reproduce the report and vary it: purpose and command."""
    launches = launches_of(table, sessions)
    found = dict.fromkeys(sha for launch in launches if (sha := launch.git.get("commit")))
    checkout = [("Take the code that measured", f"git checkout {sha}") for sha in found]
    return [
        *(checkout if len(checkout) == 1 else []),
        ("Measure what is missing and render this report", REPORT),
        ("Measure with another value of one parameter", "uv run dvc exp run -S max_num_seqs=16"),
        ("Compare its metrics with these", "uv run dvc metrics diff"),
    ]


def _markdown(measured: Measured, steps: list[tuple[str, str]]) -> str:
    items = [
        f"{term}: {text('; '.join(values))}"
        for term, values in setup(measured.plan, measured.table, measured.sessions)
    ]
    shell = "\n".join(f"{command}  # {purpose.lower()}" for purpose, command in steps)
    return details("Setup and how to reproduce", f"{bullets(items)}\n\n{fence(shell, 'sh')}")
