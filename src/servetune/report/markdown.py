"""`summary.md`: the report in what fits a comment on a pull request."""

import functools
from typing import Any

import pandas as pd

from servetune.analysis.comparison import compare, compare_capacity, known, records_of
from servetune.analysis.judgement import Judgement, judge_study
from servetune.insight.cases import cases
from servetune.insight.findings import findings
from servetune.plan import Plan
from servetune.published import Published
from servetune.records import SessionRecord
from servetune.report import (
    answer,
    economy,
    provenance,
    quality,
    quality_markdown,
    slo,
    slo_markdown,
    turns,
    validity,
    verdicts,
    wording,
)
from servetune.report import published as reference
from servetune.report.gfm import bullets, details, fence, left, pipe_table, text
from servetune.report.provenance import ServerCommand
from servetune.report.verdicts_markdown import effect_table, verdict_table
from servetune.tables import declared

MOST_FINDINGS = 8
"""Findings that are told here, those with the most to gain."""

LIMIT = 60_000
"""Characters; GitHub refuses a comment above 65,536."""


def render_markdown(
    plan: Plan,
    table: pd.DataFrame,
    quantiles: pd.DataFrame,
    sessions: dict[str, SessionRecord],
    by_turn: pd.DataFrame,
    over_time: pd.DataFrame | None = None,
    published: Published | None = None,
    searched: slo.Searched | None = None,
    answers: pd.DataFrame | None = None,
) -> str:
    """Render the report as GitHub-flavoured Markdown; takes what `render_html` takes.

    What does not fit a comment is left out from the end, and the text says so: commands first,
    then logs, then rows of the comparison.
    """
    points = declared(table)
    quantiles, by_turn = (
        each[each["measurement"].isin(points["measurement"])] for each in (quantiles, by_turn)
    )
    comparison = compare(points, plan.baseline)
    judgement = judge_study(plan, points, quantiles)
    reduced = turns.by_turn(by_turn)
    found = slo.found(plan, searched) if searched else []
    write = functools.partial(
        _document,
        plan,
        table,
        comparison,
        judgement,
        reduced,
        found,
        sessions,
        published,
        answers,
    )
    for rows, logs, commands in ((None, True, True), (None, True, False), (None, False, False)):
        if len(text := write(rows, logs, commands)) <= LIMIT:
            return text
    return write(100, False, False)


def _document(
    plan: Plan,
    table: pd.DataFrame,
    comparison: pd.DataFrame,
    judgement: Judgement,
    reduced: pd.DataFrame,
    found: list[slo.Found],
    sessions: dict[str, SessionRecord],
    published: Published | None,
    answers: pd.DataFrame | None,
    rows: int | None,
    logs: bool,
    commands: bool,
) -> str:
    dummies, points = answer.dummies(table), declared(table)
    failing = quality.failing(plan, answers)
    blocks = [
        f"## servetune: {text(plan.study)}",
        f"**{text(plan.question)}**",
        *(f"> {text(note)}" for note in quality.warnings(plan, answers)),
        *(f"> {text(note)}" for note in verdicts.cautions(plan, judgement)),
        *_notes(plan, table, comparison, sessions),
        slo_markdown.answer(plan, found),
        verdict_table(judgement, rows, failing),
        bullets(
            [f"**{text(p)}:** {text(s)}" for p, s in answer.headline(plan, comparison, failing)]
        )
        or (None if found else "No measurement is ok, so there is no answer yet."),
        _state(plan, table, comparison, judgement),
        bullets([text(why) for why in verdicts.without(judgement)]) if plan.repeats > 1 else None,
        slo_markdown.capacity_table(plan, found, dummies, rows),
        _comparison(plan, comparison, rows, dummies, failing) if len(comparison) else None,
        quality_markdown.quality_table(plan, answers),
        _batches(plan, comparison, rows, dummies),
        _turns(reduced, rows, dummies),
        effect_table(judgement, rows),
        _findings(plan, points, sessions),
        _capacity(plan, table),
        _published(plan, points, sessions, published, rows),
        *_problems(table, logs),
        _validity(table),
        _commands(provenance.commands(plan, table, sessions)) if commands else None,
        _setup(plan, table, sessions),
        None if commands and logs and rows is None else "_Shortened; summary.html holds all._",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _state(plan: Plan, table: pd.DataFrame, comparison: pd.DataFrame, judgement: Judgement) -> str:
    told = [answer.state(table)]
    if len(comparison):
        told += [verdicts.method(plan, judgement), verdicts.checked(judgement)]
    return " ".join(text(each) for each in told if each)


def _findings(plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> str | None:
    told = findings(cases(table, sessions, plan.ceilings))
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
    more = f"\n\n_{wording.plural(left, 'finding')} more in summary.html._" if left else ""
    return f"### Findings\n\n{bullets(lines)}{more}"


def _notes(
    plan: Plan, table: pd.DataFrame, comparison: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[str]:
    notes = [
        *([answer.DUMMY] if answer.dummies(table) else []),
        *answer.no_ratios(plan, comparison),
        *provenance.mixed(table, sessions),
    ]
    return [f"> {text(note)}" for note in notes]


def _comparison(
    plan: Plan,
    comparison: pd.DataFrame,
    most: int | None,
    dummies: set[str],
    failing: dict[str, str],
) -> str:
    heads = [
        "Workload",
        "Load point",
        "Variant",
        "Status",
        "Requests",
        "TTFT p50, ms",
        "TPOT p50, ms",
        "E2E p50, ms",
        "Output, tok/s",
        "Acceptance length",
    ]
    rows = records_of(comparison)
    order = {place: i for i, place in enumerate(dict.fromkeys(map(_place, rows)))}
    rows.sort(key=lambda row: (order[_place(row)], row["variant"] != plan.baseline))
    if all(known(row["acceptance_length"]) is None for row in rows):
        heads.pop()
    costs = economy.costs(comparison)
    cells = [
        _cells(plan, row, dummies, failing)[: len(heads)]
        + [wording.number(row[column]) for column in costs]
        for row in rows[:most]
    ]
    note = (
        f"In brackets: ratio to {text(plan.baseline)} at the same load point"
        " (of a latency lower is better, of a throughput higher)."
    )
    if costs and plan.price_usd_per_hour:
        note += f" {economy.EXPLAINED} {wording.number(plan.price_usd_per_hour)} USD an hour."
    shown = pipe_table([*heads, *costs.values()], cells, numeric_from=4)
    return f"{shown}\n\n{note}{left(rows, cells)}"


def _cells(
    plan: Plan, row: dict[str, Any], dummies: set[str], failing: dict[str, str]
) -> list[str]:
    metrics = ("ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms", "output_throughput_tok_s")
    is_baseline = row["variant"] == plan.baseline
    status = row["status"]
    if row["measurements"] > 1:
        status += f", {row['ok']} of {row['measurements']}"
    return [
        text(row["workload"]),
        text(row["load_point"]),
        text(answer.marked(row["variant"], dummies, failing))
        + (" (baseline)" if is_baseline else ""),
        status,
        f"{row['requests']:,}" if row["ok"] else wording.NONE,
        *(_valued(row, metric, is_baseline) for metric in metrics),
        wording.number(row["acceptance_length"]),
    ]


def _batches(
    plan: Plan, comparison: pd.DataFrame, most: int | None, dummies: set[str]
) -> str | None:
    rows = economy.batches(comparison, plan.baseline)
    if not rows:
        return None
    metrics = ("duration_s", "request_throughput_rps", "output_throughput_tok_s")
    cells = [
        [
            text(wording.where_of(row)),
            text(answer.marked(row["variant"], dummies)),
            *(_valued(row, metric, row["variant"] == plan.baseline) for metric in metrics),
        ]
        for row in rows[:most]
    ]
    heads = ["Batch", "Variant", "Time to finish, s", "Requests/s", "Output, tok/s"]
    return f"### Offline batch\n\n{pipe_table(heads, cells, numeric_from=2)}{left(rows, cells)}"


def _turns(reduced: pd.DataFrame, most: int | None, dummies: set[str]) -> str | None:
    rows = turns.first_and_last(reduced)
    if not rows:
        return None
    metrics = {
        "prefix_cache_hit_ratio": "Prefix-cache hits",
        "ttft_p50_ms": "TTFT p50, ms",
        "input_tokens_mean": "Input tokens, mean",
    }
    cells = [
        [
            text(wording.where_of(row)),
            text(answer.marked(row["variant"], dummies)),
            f"{row['turns']}",
            *(turns.from_to(row, metric) for metric in metrics),
        ]
        for row in rows[:most]
    ]
    heads = ["Load point", "Variant", "Turns", *metrics.values()]
    told = "Values in the first and in the last turn."
    shown = pipe_table(heads, cells, numeric_from=2)
    return f"### Conversations by turn\n\n{told}\n\n{shown}{left(rows, cells)}"


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


def _valued(row: dict[str, Any], metric: str, is_baseline: bool) -> str:
    value, ratio = wording.number(row[metric]), known(row[f"{metric}_ratio"])
    return value if is_baseline or ratio is None else f"{value} ({wording.ratio(ratio)})"


def _capacity(plan: Plan, table: pd.DataFrame) -> str:
    dummies = answer.dummies(table)
    rows = [
        [
            text(answer.marked(row["variant"], dummies)),
            wording.whole(row["kv_cache_tokens"]),
            wording.ratio(row["kv_cache_tokens_ratio"]),
            wording.number(row["kv_cache_max_concurrency"]),
        ]
        for row in records_of(compare_capacity(table, plan.baseline))
    ]
    heads = ["Variant", "KV-cache tokens", f"{wording.TIMES} baseline", "Max concurrency"]
    return pipe_table(heads, rows, numeric_from=1)


def _published(
    plan: Plan,
    table: pd.DataFrame,
    sessions: dict[str, SessionRecord],
    published: Published | None,
    most: int | None,
) -> str | None:
    if published is None:
        return None
    rows, dummies = reference.beside(plan, table, published), answer.dummies(table)
    cells = [
        [text(cell) for cell in (answer.marked(row.variant, dummies), row.place, *row.cells())]
        for row in rows[:most]
    ]
    told = reference.source(published, plan, provenance.versions(plan, table, sessions))
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


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["workload"], row["load_point"]
