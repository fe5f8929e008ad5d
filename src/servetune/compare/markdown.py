"""A comparison of revisions as Markdown for a pull request."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from servetune import numbers
from servetune.analysis import wording
from servetune.analysis.capacities import gain
from servetune.analysis.lockstep import LOCKSTEP
from servetune.compare.changes import Change, declared_changes, installed_changes, resolved_changes
from servetune.compare.comparison import Comparison, Row
from servetune.compare.sides import Side
from servetune.metrics import JUDGED, METRIC
from servetune.numbers import known
from servetune.report import lockstep
from servetune.report.capacity.launches import ALL, launches_together, with_launches
from servetune.report.capacity.view import Found, written
from servetune.report.gfm import bullets, details, escaped, pipe_table, text
from servetune.report.quality import view as quality
from servetune.report.setup.section import when_measured
from servetune.report.table import Table
from servetune.report.throughput import with_ends
from servetune.report.verdicts import POWERED, few, interval, power_table, unseen, verdict_cell
from servetune.tables.frames import grouped, records_of

MOST_ROWS = 150
"""More rows than a reviewer reads; it says how many are left out."""

MOST_IN_SIGHT = 6
"""Rows of a table beyond which all but these are folded: a pull request is read in one screen."""

MOST_PROVEN = 6
"""Verdicts that are named; the table has all."""

MOST_PROBLEMS = 12
"""Reasons that are listed: more than a reviewer reads, and mostly the same."""


def render_refusal(revision: str, reason: str) -> str:
    """Render why there is no comparison."""
    return f"## servetune: no verdict against {text(revision)}\n\n> {text(reason)}\n"


def render_comparison(comparison: Comparison, stale: Sequence[str] = ()) -> str:
    """Render what a reviewer signs: changes, verdicts, and what qualifies them.

    `stale` says why results are not those of params.yaml. What is long is folded: in sight is what
    decides.
    """
    title = f"## servetune: {text(study_of(comparison))} against {text(comparison.base.label)}"
    return "\n\n".join([title, answer(comparison, stale), evidence(comparison)]) + "\n"


def study_of(comparison: Comparison) -> str:
    """Name the study that is compared."""
    return str(comparison.here.params.get("study"))


def answer(comparison: Comparison, stale: Sequence[str] = ()) -> str:
    """Render how many verdicts there are of each kind, what is proven, and what to know of it."""
    blocks = [
        *(f"> **Stale results:** {text(line)}" for line in stale),
        f"**{_counts(comparison)}**",
        *_proven(comparison),
        *(f"> {text(note)}" for note in _cautions(comparison)),
    ]
    return "\n\n".join(blocks)


def evidence(comparison: Comparison) -> str:
    """Render what changed, what was measured on both sides, and what is valid."""
    base, here = comparison.base, comparison.here
    blocks = [
        "### Parameters",
        _changes(declared_changes(base, here))
        or "No parameter of params.yaml or the study changed.",
        "### What the servers resolved differently",
        _resolved(base, here),
        "### Metrics",
        _metrics(comparison),
        *_optional("Capacity within the SLO", capacity_table(base, here)),
        *_optional("Quality", quality_table(base, here)),
        _installed(installed_changes(base, here)),
        details("Validity", _validity(comparison)),
    ]
    return "\n\n".join(blocks)


def _counts(comparison: Comparison) -> str:
    if comparison.verdicts.empty:
        return "There is nothing to compare."
    kinds: dict[str, tuple[str, ...]] = {
        word: (word,) for word in ("slower", "faster", "indistinguishable")
    }
    kinds |= {"undecided": ("undecided", "none"), "in lockstep": (LOCKSTEP,)}
    counted = {word: comparison.count(*verdicts) for word, verdicts in kinds.items()}
    counts = [f"{count} {word}" for word, count in counted.items() if count]
    total = wording.plural(len(comparison.verdicts), "comparison")
    margin = numbers.share(comparison.equivalence)
    return f"Of {total}: {wording.listed(counts)} (smallest difference of interest {margin})."


def _proven(comparison: Comparison) -> list[str]:
    """Name what is proven to be slower, and faster, with its ratios: here over the base."""
    lines = []
    for verdict in ("slower", "faster"):
        rows = [r for r in records_of(comparison.verdicts) if r["verdict"] == verdict]
        of = [
            f"{r['variant']} at {wording.where_of(r)} in"
            f" {wording.inside(METRIC[r['metric']].title)} ({interval(r)})"
            for r in rows
        ]
        if of:
            lines.append(f"**{verdict.capitalize()}**: {text(few(of, MOST_PROVEN))}.")
    return [bullets(lines)] if lines else []


def _optional(title: str, table: str | None) -> list[str]:
    return [f"### {title}", table] if table else []


def _cautions(comparison: Comparison) -> list[str]:
    notes = []
    installed = installed_changes(comparison.base, comparison.here)
    if not comparison.verdicts.empty:
        notes.append(
            "The two sides were measured at different times, not interleaved: a change of the"
            " machine in between is part of the ratios. Variants of one study are interleaved."
        )
    older = [side.label for side in (comparison.base, comparison.here) if with_ends(side.table)]
    if len(older) == 1:
        notes.append(
            f"Throughputs of {older[0]} cover the ends of closed loops, those of the other side do"
            " not: where lengths vary, that is part of their ratios."
        )
    if any(change.name in ("host", "GPU") for change in installed):
        notes.append("The two sides were measured on different machines.")
    notes += lockstep.cautions(comparison.in_lockstep)
    if comparison.drifted:
        heads = [METRIC[metric].title for metric in comparison.drifted]
        notes.append(f"The machine changed while this revision was measured: {', '.join(heads)}.")
    return notes


def _installed(changes: list[Change]) -> str:
    if not changes:
        return "Engine, models and host are the same on both sides."
    rows = [[text(c.name), text(c.base), text(c.here)] for c in changes]
    names = [change.name for change in changes]
    shown = pipe_table(["Name", "Base", "Here"], rows, numeric_from=3)
    return details(f"Engine, models and host: other {text(few(names))}", shown)


def _changes(changes: list[Change]) -> str:
    rows = [[text(c.name), text(c.base), text(c.here)] for c in changes]
    return _folding(["Name", "Base", "Here"], rows) if rows else ""


def _resolved(base: Side, here: Side) -> str:
    if not (_is_configured(base) and _is_configured(here)):
        return "Not known: a server did not tell its configuration, or did not start."
    rows = [
        [text(c.name), text(c.base), text(c.here), text(", ".join(c.variants) or "all")]
        for c in resolved_changes(base, here)
    ]
    if not rows:
        return "Nothing: as the servers report it, both sides run with the same configuration."
    heads = ["Setting", "Base", "Here", "Variants"]
    return _folding(heads, rows)


def _folding(heads: list[str], rows: list[list[str]], numeric_from: int | None = None) -> str:
    """Write a table, its first rows in sight and the others folded."""
    numeric = len(heads) if numeric_from is None else numeric_from
    shown = pipe_table(heads, rows[:MOST_IN_SIGHT], numeric_from=numeric)
    if rest := rows[MOST_IN_SIGHT:]:
        shown += "\n\n" + details(f"{len(rest)} more", pipe_table(heads, rest, numeric))
    return shown


def _is_configured(side: Side) -> bool:
    """Whether each variant has a launch that gave its configuration."""
    return set(side.variants) <= {
        session.variant
        for session in side.sessions.values()
        if any(launch.server_info.get("vllm_config") for launch in session.launches)
    }


def _metrics(comparison: Comparison) -> str:
    everywhere = [m.name for m in METRIC.values() if not m.needs_slo and not m.is_pooled]
    judged = [name for name in JUDGED if name in everywhere or _has(comparison, name)]
    cells = [
        [text(row.variant), text(f"{row.workload} · {row.load_point}"), *_row_cells(row, judged)]
        for row in comparison.rows[:MOST_ROWS]
    ]
    heads = ["Variant", "Load point", *(METRIC[metric].title for metric in judged)]
    shown = _folding(heads, cells)
    left = len(comparison.rows) - len(cells)
    shown += f"\n\n{wording.plural(left, 'more row')} not shown." if left else ""
    if comparison.verdicts.empty:
        return shown
    power = power_table(comparison.resolution)
    powered = [_plain(power), text(POWERED)] if power else []
    told = "\n\n".join(filter(None, [*powered, text(unseen(comparison.verdicts))]))
    return f"{shown}\n\n{details('What the launches can show', told)}" if told else shown


def _plain(table: Table) -> str:
    """Write a table of plain cells."""
    cells = [[escaped(str(cell)) for cell in row] for row in table.rows]
    return pipe_table(list(table.heads), cells, numeric_from=len(table.texts))


def _has(comparison: Comparison, metric: str) -> bool:
    return any(
        side and known(side[metric]) is not None
        for row in comparison.rows
        for side in (row.base, row.here)
    )


def _row_cells(row: Row, metrics: list[str]) -> list[str]:
    if row.note is not None and not row.verdicts:
        values = [_values(row, metric) for metric in metrics]
        return [f"{value}; {text(row.note)}" if value else text(row.note) for value in values]
    return [f"{_values(row, metric)}: {verdict_cell(row.verdicts, metric)}" for metric in metrics]


def _values(row: Row, metric: str) -> str:
    """Write the means of both sides, or of the one that has any."""
    before, after = (known(side[metric]) if side else None for side in (row.base, row.here))
    if before is None and after is None:
        return ""
    if row.is_shared:
        return f"{numbers.number(after)} {METRIC[metric].unit}"
    arrow = "\N{RIGHTWARDS ARROW}"
    return f"{numbers.number(before)} {arrow} {numbers.number(after)} {METRIC[metric].unit}"


def capacity_table(base: Side, here: Side) -> str | None:
    """Write the capacities of both sides with their ratio; None where neither has any.

    Searches on several launches are one row, as in the report; the ratio takes both sides as
    independent.
    """
    rows = []
    for before, after in _capacities(base, here):
        each = after or before
        assert each
        both = gain(after.row, before.row) if after and before else None
        cells = [_capacity(side) if side else numbers.NONE for side in (before, after)]
        repeat = each.row["repeat"]
        which = f", repeat {repeat}" if repeat not in (1, ALL) else ""
        of = [text(each.row["variant"] + which), text(each.place)]
        rows.append([*of, *cells, text(written(both)) if both else numbers.NONE])
    heads = ["Variant", "SLO", "Base", "Here", "Here over base"]
    return pipe_table(heads, rows, numeric_from=len(heads)) if rows else None


def _capacity(found: Found) -> str:
    over = found.launches if found.row["repeat"] == ALL else ""
    return f"{found.capacity} ({found.interval}) {found.unit} {over}".rstrip()


def _capacities(base: Side, here: Side) -> Iterator[tuple[Found | None, Found | None]]:
    """Pair what both sides found at a place: their rows, or, of several, those of a repeat."""
    before, after = (
        grouped(_over_launches(side.capacities), lambda each: (each.row["variant"], each.place))
        for side in (base, here)
    )
    for place in dict.fromkeys([*after, *before]):
        sides = before.get(place, []), after.get(place, [])
        if max(map(len, sides)) == 1:
            first, second = (next(iter(side), None) for side in sides)
            yield first, second
            continue
        by_repeat = [{each.row["repeat"]: each for each in side} for side in sides]
        for repeat in dict.fromkeys([*by_repeat[1], *by_repeat[0]]):
            yield by_repeat[0].get(repeat), by_repeat[1].get(repeat)


def _over_launches(capacities: pd.DataFrame) -> list[Found]:
    if capacities.empty:
        return []
    found = [
        Found(row, None, f"{row['workload']} · {row['tier']}", "") for row in records_of(capacities)
    ]
    return launches_together(with_launches(found, capacities, ""))


def quality_table(base: Side, here: Side) -> str | None:
    """Write the quality of both sides, each against its own baseline; None where neither has it."""
    rows = []
    for before, after in _pairs(base.quality, here.quality, ["variant"]):
        cells = [_answers(row) if row else numbers.NONE for row in (before, after)]
        rows.append([text((after or before)["variant"]), *map(text, cells)])
    heads = ["Variant", "Base", "Here"]
    return pipe_table(heads, rows, numeric_from=len(heads)) if rows else None


def _answers(row: dict[str, Any]) -> str:
    if why := quality.absent(row):
        return why
    is_judged, parts = isinstance(row["verdict"], str), []
    if numbers.known(row["perplexity"]) is not None:
        parts.append(f"perplexity {numbers.number(row['perplexity'])}")
        if is_judged:
            parts.append(f"{quality.estimate(row, 'perplexity_ratio')} of the baseline's")
            parts.append(f"top-1 agreement {quality.estimate(row, 'top1_agreement')}")
    if numbers.known(row["accuracy"]) is not None:
        parts.append(f"{numbers.percent(row['accuracy'])} right answers")
        if is_judged:
            parts.append(f"a change of {quality.estimate(row, 'accuracy_change')}")
    return ", ".join(parts) + (f": {row['verdict']}" if is_judged else "")


def _pairs(
    base: pd.DataFrame, here: pd.DataFrame, key: list[str]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pair the rows of both sides, in the order of this one; {} on a side that has none."""
    before, after = (
        {tuple(row[name] for name in key): row for row in records_of(side)} for side in (base, here)
    )
    return [(before.get(at, {}), after.get(at, {})) for at in dict.fromkeys([*after, *before])]


def _validity(comparison: Comparison) -> str:
    lines = [_state(comparison.base, comparison.base.label), _state(comparison.here, "Here")]
    table = comparison.here.table
    if (table["repeat"] > 1).any():
        kept = "was" if comparison.order_was_kept else "was not"
        lines.append(f"Here the interleaved order of sessions {kept} kept.")
    lines += [
        text(
            f"{row['variant']} {row['load_point']}, repeat {row['repeat']}:"
            f" {row['status']}: {row['reason']}"
        )
        for row in records_of(table[table["status"] != "ok"])[:MOST_PROBLEMS]
    ]
    return bullets(lines)


def _state(side: Side, label: str) -> str:
    counts = [
        f"{(side.table['status'] == status).sum()} {status}"
        for status in ("ok", "failed", "invalid")
    ]
    when = "".join(f", measured {span}" for span in when_measured(side.table))
    measurements = wording.plural(len(side.table), "measurement")
    return f"{text(label)}: {measurements}, {', '.join(counts)}{when}."
