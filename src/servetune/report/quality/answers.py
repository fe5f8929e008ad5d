"""Questions with answers to check: who has how many right, and which answers changed."""

import json
from typing import Any

from servetune.analysis.wording import text_of
from servetune.numbers import NONE, number, percent, whole
from servetune.plan.planned import Plan
from servetune.report.quality.view import absent, estimate
from servetune.report.table import Cell, Name, Styled, Table


def method(plan: Plan, rows: list[dict[str, Any]]) -> str:
    """Say what was asked, how it is compared, and how much the baseline differs from itself."""
    told = (
        "Each variant was asked the same questions twice, greedily, in one launch; the first"
        f" answers are compared with those of {plan.baseline}, question by question. The interval"
        " is Tango's for paired shares at 95\N{NO-BREAK SPACE}%, p of McNemar's exact test of any"
        " difference. More questions narrow the interval. How much answers differ between launches"
        " is not known."
    )
    baseline = next((row for row in rows if row["variant"] == plan.baseline), None)
    if baseline is None or absent(baseline):
        return told
    questions, unstable = whole(baseline["questions"]), whole(baseline["unstable"])
    return (
        f"{told} The noise floor: asked twice, {plan.baseline} itself was right once and wrong once"
        f" on {unstable} of {questions} questions, and changed the text of"
        f" {whole(baseline['unstable_texts'])}."
    )


def table(rows: list[dict[str, Any]], baseline: str) -> Table:
    """Make the table: a row a variant, a reason in place of a verdict."""
    cells: list[list[Cell]] = []
    for row in rows:
        verdict = text_of(row["accuracy_verdict"])
        is_compared = row["variant"] != baseline
        judged = Styled(verdict, f"verdict {verdict}" if verdict else "", verdict == "fails")
        told = judged if verdict else ("no bound" if is_compared else "baseline")
        cells.append(
            [
                Name(row["variant"]),
                absent(row) or told,
                f"{percent(row['accuracy'])} of {whole(row['questions'])}",
                estimate(row, "accuracy_change"),
                *(whole(row[name]) for name in ("lost_answers", "gained_answers")),
                number(row["mcnemar_p"]),
                f"{whole(row['unstable'])} ({whole(row['unstable_texts'])})",
                whole(row["cut"]),
            ]
        )
    heads = ("Variant", "Verdict", "Right", "Change", "Lost", "Gained", "p (McNemar)")
    more = ("Differs from itself (texts)", "Cut at its length")
    return Table("Right answers", (*heads, *more), cells, heads[:2])


def changes(row: dict[str, Any], baseline: str) -> tuple[str, Table] | None:
    """Show a variant's changed answers side by side, with a line that counts them; None without."""
    changed = json.loads(text) if (text := text_of(row["changed"])) else []
    if not changed:
        return None
    cells: list[list[Cell]] = [
        [
            each["question"],
            "lost" if each["is_lost"] else "gained",
            *(each[name] or NONE for name in ("asked", "expected", "before", "after")),
            "yes" if each["is_unstable"] else "",
        ]
        for each in changed
    ]
    heads = ("Question", "Answer", "Asked", "Expected", baseline, row["variant"], "Unstable")
    lost, gained = (int(row[name]) for name in ("lost_answers", "gained_answers"))
    line = f"{row['variant']}: {lost} lost, {gained} gained"
    if lost + gained > len(changed):
        line += f"; the first {len(changed)} are shown"
    return line, Table(f"Changed answers of {row['variant']}", heads, cells, heads)
