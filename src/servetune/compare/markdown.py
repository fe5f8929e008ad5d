"""A comparison of revisions as Markdown for a pull request."""

from servetune.compare.beside import capacity_table, quality_table
from servetune.compare.changes import Change
from servetune.compare.comparison import Comparison, Row
from servetune.compare.sides import Side
from servetune.metrics import JUDGED, METRIC
from servetune.report import wording
from servetune.report.gfm import bullets, details, pipe_table, text
from servetune.report.verdicts import resolved, verdict_cell
from servetune.tables.frames import known, records_of

MOST_RESOLVED = 25
MOST_ROWS = 150
MOST_PROBLEMS = 12


def render_comparison(comparison: Comparison) -> str:
    """Render what a reviewer signs: changes, verdicts, and what qualifies them."""
    blocks = [
        f"## servetune: {text(str(comparison.here.params.get('study')))} against"
        f" {text(comparison.base.label)}",
        f"**{_answer(comparison)}**",
        *(f"> {text(note)}" for note in _cautions(comparison)),
        "### Parameters",
        _changes(comparison.declared) or "No parameter of params.yaml or the study changed.",
        "### What the servers resolved differently",
        _resolved(comparison),
        "### Metrics",
        _metrics(comparison),
        *_beside("Capacity within the SLO", capacity_table(comparison.base, comparison.here)),
        *_beside("Quality", quality_table(comparison.base, comparison.here)),
        "### Engine, models and host",
        _changes(comparison.installed) or "Engine, models and host are the same on both sides.",
        "### Validity",
        _validity(comparison),
    ]
    return "\n\n".join(blocks) + "\n"


def _answer(comparison: Comparison) -> str:
    if comparison.verdicts.empty:
        return "There is nothing to compare."
    counts = [
        f"{count} {'without a verdict' if word == 'none' else word}"
        for word in ("slower", "faster", "indistinguishable", "undecided", "none")
        if (count := comparison.count(word))
    ]
    total = wording.plural(len(comparison.verdicts), "comparison")
    margin = wording.share(comparison.equivalence)
    return f"Of {total}: {wording.listed(counts)} (smallest difference of interest {margin})."


def _beside(title: str, table: str | None) -> list[str]:
    return [f"### {title}", table] if table else []


def _cautions(comparison: Comparison) -> list[str]:
    notes = []
    if not comparison.verdicts.empty:
        notes.append(
            "The two sides were measured at different times, not interleaved: a change of the"
            " machine in between is part of the ratios. Variants of one study are interleaved."
        )
    if any(change.name in ("host", "GPU") for change in comparison.installed):
        notes.append("The two sides were measured on different machines.")
    if comparison.drifted:
        heads = [METRIC[metric].title for metric in comparison.drifted]
        notes.append(f"The machine changed while this revision was measured: {', '.join(heads)}.")
    return notes


def _changes(changes: list[Change]) -> str:
    rows = [[text(c.name), text(c.base), text(c.here)] for c in changes]
    return pipe_table(["Name", "Base", "Here"], rows, numeric_from=3) if rows else ""


def _resolved(comparison: Comparison) -> str:
    if not (_is_configured(comparison.base) and _is_configured(comparison.here)):
        return "Not known: a server did not tell its configuration, or did not start."
    rows = [
        [text(c.name), text(c.base), text(c.here), text(", ".join(c.variants) or "all")]
        for c in comparison.resolved
    ]
    if not rows:
        return "Nothing: as the servers report it, both sides run with the same configuration."
    heads = ["Setting", "Base", "Here", "Variants"]
    shown = pipe_table(heads, rows[:MOST_RESOLVED], numeric_from=4)
    if len(rows) > MOST_RESOLVED:
        rest = pipe_table(heads, rows[MOST_RESOLVED:], numeric_from=4)
        shown += "\n\n" + details(f"{len(rows) - MOST_RESOLVED} more", rest)
    return shown


def _is_configured(side: Side) -> bool:
    """Whether each variant has a launch that gave its configuration."""
    return set(side.variants) <= {
        session.variant
        for session in side.sessions.values()
        if any(launch.server_info.get("vllm_config") for launch in session.launches)
    }


def _metrics(comparison: Comparison) -> str:
    cells = [
        [text(row.variant), text(f"{row.workload} · {row.load_point}"), *_row_cells(row)]
        for row in comparison.rows[:MOST_ROWS]
    ]
    heads = ["Variant", "Load point", *(METRIC[metric].title for metric in JUDGED)]
    shown = pipe_table(heads, cells, numeric_from=len(heads))
    left = len(comparison.rows) - len(cells)
    shown += f"\n\n{wording.plural(left, 'more row')} not shown." if left else ""
    power = "" if comparison.verdicts.empty else resolved(comparison.resolution)
    return shown + (f"\n\n{text(power)}" if power else "")


def _row_cells(row: Row) -> list[str]:
    if row.note is not None and not row.verdicts:
        values = [_values(row, metric) for metric in JUDGED]
        return [f"{value}; {text(row.note)}" if value else text(row.note) for value in values]
    return [
        f"{_values(row, metric)}: {verdict_cell(row.verdicts.get(metric))}" for metric in JUDGED
    ]


def _values(row: Row, metric: str) -> str:
    """Write the means of both sides, or of the one that has any."""
    before, after = (known(side[metric]) if side else None for side in (row.base, row.here))
    if before is None and after is None:
        return ""
    if row.is_shared:
        return f"{wording.number(after)} {METRIC[metric].unit}"
    arrow = "\N{RIGHTWARDS ARROW}"
    return f"{wording.number(before)} {arrow} {wording.number(after)} {METRIC[metric].unit}"


def _validity(comparison: Comparison) -> str:
    lines = [_state(comparison.base, comparison.base.label), _state(comparison.here, "Here")]
    table = comparison.here.table
    if int(table["repeat"].max()) > 1:
        kept = "was" if comparison.order_was_kept else "was not"
        lines.append(f"Here the interleaved order of sessions {kept} kept.")
    lines += [
        f"{text(row['variant'])} {row['load_point']}, repeat {row['repeat']}:"
        f" {row['status']}: {text(row['reason'])}"
        for row in records_of(table[table["status"] != "ok"])[:MOST_PROBLEMS]
    ]
    return bullets(lines)


def _state(side: Side, label: str) -> str:
    table = side.table
    counts = {status: int((table["status"] == status).sum()) for status in ("ok", "failed")}
    invalid = len(table) - sum(counts.values())
    times = table["started_at"].dropna()
    when = f", measured {times.min()} to {times.max()}" if len(times) else ""
    return (
        f"{text(label)}: {wording.plural(len(table), 'measurement')}, {counts['ok']} ok,"
        f" {counts['failed']} failed, {invalid} invalid{when}."
    )
