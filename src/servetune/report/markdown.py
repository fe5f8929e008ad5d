"""`summary.md`: the report in what fits a comment on a pull request."""

import pandas as pd

from servetune.analysis.comparison import compare_kv_cache
from servetune.plan.planned import Plan
from servetune.records.sessions import SessionRecord
from servetune.report import provenance, verdicts, wording
from servetune.report.answer import words as answer
from servetune.report.answer.markdown import batch_table, comparison_table, turn_table
from servetune.report.capacity import markdown as slo_markdown
from servetune.report.findings.markdown import context_table, finding_list, payoff_list
from servetune.report.gfm import bullets, details, fence, left, pipe_table, text
from servetune.report.measured import Measured
from servetune.report.provenance import ServerCommand
from servetune.report.published import words as reference
from servetune.report.quality import markdown as quality_markdown
from servetune.report.validity import words as validity
from servetune.report.verdicts_markdown import effect_table, verdict_table
from servetune.tables.frames import records_of

LIMIT = 60_000
"""Characters; GitHub refuses a comment above 65,536."""


def render_markdown(measured: Measured) -> str:
    """Render the report as GitHub-flavoured Markdown.

    What does not fit a comment is left out from the end, and the text says so: commands first,
    then logs, then rows of the comparison.
    """
    for rows, logs, commands in ((None, True, True), (None, True, False), (None, False, False)):
        if len(text := _document(measured, rows, logs, commands)) <= LIMIT:
            return text
    return _document(measured, 100, False, False)


def _document(measured: Measured, rows: int | None, logs: bool, commands: bool) -> str:
    plan, table, sessions = measured.plan, measured.table, measured.sessions
    comparison, judgement = measured.comparison, measured.judgement
    headline = answer.headline(plan, comparison, measured.failing)
    blocks = [
        f"## servetune: {text(plan.study)}",
        f"**{text(plan.question)}**",
        *(f"> {text(note)}" for note in measured.notes),
        slo_markdown.answer(plan, measured.found),
        verdict_table(judgement, rows, measured.failing),
        bullets([f"**{text(place)}:** {text(sentence)}" for place, sentence in headline])
        or (None if measured.found else "No measurement is ok, so there is no answer yet."),
        _state(measured),
        bullets([text(why) for why in verdicts.without(judgement)]) if plan.repeats > 1 else None,
        slo_markdown.capacity_table(plan, measured.found, measured.dummies, rows),
        comparison_table(measured, rows),
        quality_markdown.quality_table(plan, measured.answers),
        batch_table(measured, rows),
        turn_table(measured, rows),
        effect_table(judgement, rows),
        finding_list(measured),
        payoff_list(measured),
        context_table(measured),
        _capacity(measured),
        _published(measured, rows),
        *_problems(table, logs),
        _validity(table),
        _commands(provenance.commands(plan, table, sessions)) if commands else None,
        _setup(plan, table, sessions),
        None if commands and logs and rows is None else "_Shortened; summary.html holds all._",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _state(measured: Measured) -> str:
    plan, judgement = measured.plan, measured.judgement
    told = [answer.state(measured.table)]
    if len(measured.comparison):
        told += [verdicts.method(plan, judgement), verdicts.checked(judgement)]
        told += [verdicts.resolved(judgement.resolution)]
    return " ".join(text(each) for each in told if each)


def _validity(table: pd.DataFrame) -> str | None:
    """The rules over all measurements; the reasons of broken ones stand above."""
    tallies = validity.tallies(validity.cards(table))
    cells = [
        [
            tally.shown.title,
            tally.limit,
            tally.highest,
            *(f"{count:,}" for count in (tally.broken, tally.passed, tally.not_judged)),
        ]
        for tally in tallies
    ]
    if not cells:
        return None
    heads = ["Rule", "Limit", "Highest seen", "Broken", "Pass", "Not judged"]
    return details("Validity rules", pipe_table(heads, cells, numeric_from=3))


def _capacity(measured: Measured) -> str:
    rows = [
        [
            text(answer.marked(row["variant"], measured.dummies)),
            wording.whole(row["kv_cache_tokens"]),
            wording.ratio(row["kv_cache_tokens_ratio"]),
            wording.number(row["kv_cache_max_concurrency"]),
        ]
        for row in records_of(compare_kv_cache(measured.table, measured.plan.baseline))
    ]
    heads = ["Variant", "KV-cache tokens", f"{wording.TIMES} baseline", "Max concurrency"]
    return pipe_table(heads, rows, numeric_from=1)


def _published(measured: Measured, most: int | None) -> str | None:
    plan, published = measured.plan, measured.published
    if published is None:
        return None
    rows = reference.beside(plan, measured.points, published)
    cells = [
        [
            text(cell)
            for cell in (answer.marked(row.variant, measured.dummies), row.place, *row.cells())
        ]
        for row in rows[:most]
    ]
    versions = provenance.versions(plan, measured.points, measured.sessions)
    told = reference.source(published, plan, versions)
    parts = [
        f"{reference.EXPLAINED} Source: {text(published.source.title)}.",
        pipe_table(
            ["What differs", "Published", "Measured here"], [[text(c) for c in r] for r in told], 3
        ),
        bullets([text(each) for each in published.source.differs]),
        pipe_table(["Variant", "Where", *reference.HEADS], cells, 3) + left(rows, cells),
    ]
    return details("Published numbers beside measured ones", "\n\n".join(parts))


def _problems(table: pd.DataFrame, logs: bool) -> list[str]:
    blocks = []
    for problem in answer.problems(table):
        rule = f" (rule {text(problem.rule)})" if problem.rule else ""
        blocks.append(
            f"**{text(problem.variant)} {problem.status}**{rule}: {text(problem.reason)}"
            f" \N{EN DASH} {text('; '.join(problem.places))}"
        )
        if logs and problem.log_tail:
            blocks.append(details("End of the server's log", fence(problem.log_tail)))
    return ["### Failed and invalid", *blocks] if blocks else []


def _commands(commands: list[ServerCommand]) -> str:
    parts = []
    first = min((server.repeat for server in commands), default=1)
    for server in (server for server in commands if server.repeat == first):
        environment = f"{server.environment} " if server.environment else ""
        loads = [f"# {load.where}\n{load.command}" for load in server.loads if load.command]
        parts.append(f"**{text(server.variant)}**")
        parts.append(fence("\n".join([f"{environment}{server.command}", *loads]), "sh"))
    if any(server.repeat != first for server in commands):
        parts.append(f"These are of repeat {first}; summary.html holds the others.")
    return details("Server and load commands", "\n\n".join(parts))


def _setup(plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> str:
    items = [
        f"{term}: {text('; '.join(values))}"
        for term, values in provenance.setup(plan, table, sessions)
    ]
    steps = provenance.reproduction(plan, table, sessions)
    shell = "\n".join(f"{text}  # {purpose.lower()}" for purpose, text in steps)
    return details("Setup and how to reproduce", f"{bullets(items)}\n\n{fence(shell, 'sh')}")
