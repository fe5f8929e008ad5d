"""`summary.md`: the report in what fits a comment on a pull request."""

import re
from typing import Any

import pandas as pd

from servetune.analysis.comparison import compare, compare_capacity, known, records_of
from servetune.plan import Plan
from servetune.published import Published
from servetune.records import SessionRecord
from servetune.report import answer, economy, provenance, turns, validity, wording
from servetune.report import published as reference
from servetune.report.provenance import ServerCommand

LIMIT = 60_000
"""Characters; GitHub refuses a comment above 65,536."""


def render_markdown(
    plan: Plan,
    table: pd.DataFrame,
    quantiles: pd.DataFrame,
    sessions: dict[str, SessionRecord],
    by_turn: pd.DataFrame,
    published: Published | None = None,
) -> str:
    """Render the report as GitHub-flavoured Markdown; takes what `render_html` takes.

    What does not fit a comment is left out from the end, and the text says so: commands first,
    then logs, then rows of the comparison.
    """
    comparison = compare(table, plan.baseline)
    reduced = turns.by_turn(by_turn)
    for rows, logs, commands in ((None, True, True), (None, True, False), (None, False, False)):
        text = _document(
            plan, table, comparison, reduced, sessions, published, rows, logs, commands
        )
        if len(text) <= LIMIT:
            return text
    return _document(plan, table, comparison, reduced, sessions, published, 100, False, False)


def _document(
    plan: Plan,
    table: pd.DataFrame,
    comparison: pd.DataFrame,
    reduced: pd.DataFrame,
    sessions: dict[str, SessionRecord],
    published: Published | None,
    rows: int | None,
    logs: bool,
    commands: bool,
) -> str:
    dummies = answer.dummies(table)
    blocks = [
        f"## servetune: {_text(plan.study)}",
        f"**{_text(plan.question)}**",
        *_notes(plan, table, comparison, sessions),
        _bullets([f"**{_text(p)}:** {_text(s)}" for p, s in answer.headline(plan, comparison)])
        or "No measurement is ok, so there is no answer yet.",
        f"{_text(answer.state(table))} {_text(answer.caution(plan))}",
        _comparison(plan, comparison, rows, dummies),
        _batches(plan, comparison, rows, dummies),
        _turns(reduced, rows, dummies),
        _capacity(plan, table),
        _published(plan, table, sessions, published, rows),
        *_problems(table, logs),
        _validity(table),
        _commands(provenance.commands(plan, table, sessions)) if commands else None,
        _setup(plan, table, sessions),
        None if commands and logs and rows is None else "_Shortened; summary.html holds all._",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _notes(
    plan: Plan, table: pd.DataFrame, comparison: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[str]:
    notes = [
        *([answer.DUMMY] if answer.dummies(table) else []),
        *answer.no_ratios(plan, comparison),
        *provenance.mixed(table, sessions),
    ]
    return [f"> {_text(note)}" for note in notes]


def _comparison(plan: Plan, comparison: pd.DataFrame, most: int | None, dummies: set[str]) -> str:
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
        _cells(plan, row, dummies)[: len(heads)] + [wording.number(row[column]) for column in costs]
        for row in rows[:most]
    ]
    note = (
        f"In brackets: ratio to {_text(plan.baseline)} at the same load point"
        " (of a latency lower is better, of a throughput higher)."
    )
    if costs:
        note += f" {economy.EXPLAINED} {wording.number(plan.price_usd_per_hour)} USD an hour."
    shown = _table([*heads, *costs.values()], cells, numeric_from=4)
    return f"{shown}\n\n{note}{_left(rows, cells)}"


def _cells(plan: Plan, row: dict[str, Any], dummies: set[str]) -> list[str]:
    metrics = ("ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms", "output_throughput_tok_s")
    is_baseline = row["variant"] == plan.baseline
    status = row["status"]
    if row["measurements"] > 1:
        status += f", {row['ok']} of {row['measurements']}"
    return [
        _text(row["workload"]),
        _text(row["load_point"]),
        _text(answer.marked(row["variant"], dummies)) + (" (baseline)" if is_baseline else ""),
        status,
        f"{row['requests']:,}" if row["ok"] else wording.NONE,
        *(_valued(row, metric, is_baseline) for metric in metrics),
        wording.number(row["acceptance_length"]),
    ]


def _left(rows: list[Any], cells: list[Any]) -> str:
    left = len(rows) - len(cells)
    return f"\n\n{wording.plural(left, 'more row')} in summary.html." if left else ""


def _batches(
    plan: Plan, comparison: pd.DataFrame, most: int | None, dummies: set[str]
) -> str | None:
    rows = economy.batches(comparison, plan.baseline)
    if not rows:
        return None
    metrics = ("duration_s", "request_throughput_rps", "output_throughput_tok_s")
    cells = [
        [
            _text(wording.where_of(row)),
            _text(answer.marked(row["variant"], dummies)),
            *(_valued(row, metric, row["variant"] == plan.baseline) for metric in metrics),
        ]
        for row in rows[:most]
    ]
    heads = ["Batch", "Variant", "Time to finish, s", "Requests/s", "Output, tok/s"]
    return f"### Offline batch\n\n{_table(heads, cells, numeric_from=2)}{_left(rows, cells)}"


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
            _text(wording.where_of(row)),
            _text(answer.marked(row["variant"], dummies)),
            f"{row['turns']}",
            *(turns.from_to(row, metric) for metric in metrics),
        ]
        for row in rows[:most]
    ]
    heads = ["Load point", "Variant", "Turns", *metrics.values()]
    told = "Values in the first and in the last turn."
    shown = _table(heads, cells, numeric_from=2)
    return f"### Conversations by turn\n\n{told}\n\n{shown}{_left(rows, cells)}"


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
    return _details("Validity rules", _table(heads, cells, numeric_from=3))


def _valued(row: dict[str, Any], metric: str, is_baseline: bool) -> str:
    value, ratio = wording.number(row[metric]), known(row[f"{metric}_ratio"])
    return value if is_baseline or ratio is None else f"{value} ({wording.ratio(ratio)})"


def _capacity(plan: Plan, table: pd.DataFrame) -> str:
    dummies = answer.dummies(table)
    rows = [
        [
            _text(answer.marked(row["variant"], dummies)),
            wording.whole(row["kv_cache_tokens"]),
            wording.ratio(row["kv_cache_tokens_ratio"]),
            wording.number(row["kv_cache_max_concurrency"]),
        ]
        for row in records_of(compare_capacity(table, plan.baseline))
    ]
    heads = ["Variant", "KV-cache tokens", f"{wording.TIMES} baseline", "Max concurrency"]
    return _table(heads, rows, numeric_from=1)


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
        [_text(cell) for cell in (answer.marked(row.variant, dummies), row.place, *row.cells())]
        for row in rows[:most]
    ]
    told = reference.source(published, plan, provenance.versions(plan, table, sessions))
    parts = [
        f"{reference.EXPLAINED} Source: {_text(published.source.title)}.",
        _table(
            ["What differs", "Published", "Measured here"], [[_text(c) for c in r] for r in told], 3
        ),
        _bullets([_text(each) for each in published.source.differs]),
        _table(["Variant", "Where", *reference.HEADS], cells, 3) + _left(rows, cells),
    ]
    return _details("Published numbers beside measured ones", "\n\n".join(parts))


def _problems(table: pd.DataFrame, logs: bool) -> list[str]:
    blocks = []
    for problem in answer.problems(table):
        rule = f" (rule {_text(problem.rule)})" if problem.rule else ""
        blocks.append(
            f"**{_text(problem.variant)} {problem.status}**{rule}: {_text(problem.reason)}"
            f" \N{EN DASH} {_text('; '.join(problem.places))}"
        )
        if logs and problem.log_tail:
            blocks.append(_details("End of the server's log", _fence(problem.log_tail)))
    return ["### Failed and invalid", *blocks] if blocks else []


def _commands(commands: list[ServerCommand]) -> str:
    parts = []
    first = min((server.repeat for server in commands), default=1)
    for server in (server for server in commands if server.repeat == first):
        environment = f"{server.environment} " if server.environment else ""
        loads = [f"# {load.where}\n{load.command}" for load in server.loads if load.command]
        parts.append(f"**{_text(server.variant)}**")
        parts.append(_fence("\n".join([f"{environment}{server.command}", *loads]), "sh"))
    if any(server.repeat != first for server in commands):
        parts.append(f"These are of repeat {first}; summary.html holds the others.")
    return _details("Server and load commands", "\n\n".join(parts))


def _setup(plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> str:
    items = [
        f"{term}: {_text('; '.join(values))}"
        for term, values in provenance.setup(plan, table, sessions)
    ]
    steps = provenance.reproduction(plan, table, sessions)
    shell = "\n".join(f"{text}  # {purpose.lower()}" for purpose, text in steps)
    return _details("Setup and how to reproduce", f"{_bullets(items)}\n\n{_fence(shell, 'sh')}")


def _table(heads: list[str], rows: list[list[str]], numeric_from: int) -> str:
    rule = ["---" if i < numeric_from else "--:" for i in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


def _bullets(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fence(text: str, language: str = "") -> str:
    """Fence code with more backticks than it holds in a row."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _text(text: str) -> str:
    """Escape text for Markdown: nothing in it formats, links, mentions or ends a table's cell."""
    flat = " ".join(str(text).split())
    html = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore inside a word formats nothing on GitHub, and names are full of them.
    marked = re.sub(r"([\\`*{}\[\]|#~!]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", html)
    # A zero-width space keeps text such as user@host from calling a person.
    return marked.replace("@", "@\N{ZERO WIDTH SPACE}")


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["workload"], row["load_point"]
