"""Why the numbers are as they are, and what to try."""

from servetune.analysis.findings.gather import GroupedFinding, findings
from servetune.analysis.wording import plural
from servetune.report.gfm import bullets, text
from servetune.report.lacks import lack
from servetune.report.measured import Measured
from servetune.report.section import Section

MOST_FINDINGS = 8
"""Findings that the Markdown tells, those with the most to gain."""


def section(measured: Measured) -> Section | None:
    """Make the section; None where no rule found anything."""
    told = findings(measured.cases)
    if not told:
        return None
    made = [each for each in told if not each.finding.is_lack]
    lacks = (
        lack(f"The finding {each.rule} of {each.seen_at}", each.finding.title)
        for each in told
        if each.finding.is_lack
    )
    return Section(
        "findings",
        "Findings",
        made,
        markdown=lambda fit: _markdown(made) if made else None,
        lacks=tuple(lacks),
    )


def _markdown(told: list[GroupedFinding]) -> str:
    lines = []
    for each in told[:MOST_FINDINGS]:
        seen = "; ".join(f"{name} {value}" for name, value in each.finding.evidence)
        tries = "; ".join(each.finding.attempts)
        others = ", ".join(list(each.places)[1:])
        also = f" Also of {text(others)}." if others else ""
        lines.append(
            f"**{text(each.finding.title)}** {text(each.seen_at)}: {text(seen)}."
            f"{f' Try: {text(tries)}.' if tries else ''}{also}"
        )
    left = len(told) - len(lines)
    more = f"\n\n_{plural(left, 'finding')} more in summary.html._" if left else ""
    return f"### Findings\n\n{bullets(lines)}{more}"
