"""Why it is as it is, in Markdown: findings, whether speculation pays, TPOT over context."""

from servetune.analysis.findings.cases import cases
from servetune.analysis.findings.gather import findings
from servetune.report.answer import words as answer
from servetune.report.context import words as context
from servetune.report.gfm import bullets, pipe_table, text
from servetune.report.measured import Measured
from servetune.report.speculation import words as speculation
from servetune.report.wording import plural

MOST_FINDINGS = 8
"""Findings that are told here, those with the most to gain."""


def finding_list(measured: Measured) -> str | None:
    """List the findings with most to gain."""
    told = findings(cases(measured.points, measured.sessions, measured.plan.ceilings))
    if not told:
        return None
    lines = []
    for each in told[:MOST_FINDINGS]:
        seen = "; ".join(f"{name} {value}" for name, value in each.finding.evidence)
        tries = "; ".join(each.finding.attempts)
        others = ", ".join(list(each.places)[1:])
        also = f" Also of {text(others)}." if others else ""
        lines.append(
            f"**{text(each.finding.title)}** {text(each.seen_at)}: {text(seen)}."
            f" Try: {text(tries)}.{also}"
        )
    left = len(told) - len(lines)
    more = f"\n\n_{plural(left, 'finding')} more in summary.html._" if left else ""
    return f"### Findings\n\n{bullets(lines)}{more}"


def payoff_list(measured: Measured) -> str | None:
    """Say of each variant that speculates up to which load it pays."""
    if not measured.payoffs:
        return None
    synthetic = speculation.synthetic(measured.plan)
    told = bullets([text(sentence) for sentence in speculation.sentences(measured.payoffs)])
    return "\n\n".join(["### Speculation", *([text(synthetic)] if synthetic else []), told])


def context_table(measured: Measured) -> str | None:
    """Show the line of each variant's TPOT over context."""
    if not measured.growing:
        return None
    cells = [
        [text(answer.marked(variant, measured.dummies)), *map(text, told)]
        for variant, told in context.rows(measured.growing)
    ]
    table = pipe_table(["Variant", *context.HEADS], cells, numeric_from=1)
    return f"### TPOT over context\n\n{context.EXPLAINED}\n\n{table}"
