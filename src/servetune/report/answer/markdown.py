"""The tables of load points for a pull request: the comparison, batches, conversations."""

from typing import Any

from servetune.report import economy, wording
from servetune.report.answer import words as answer
from servetune.report.gfm import left, pipe_table, text
from servetune.report.measured import Measured
from servetune.report.turns import charts as turns
from servetune.tables.frames import known, records_of


def comparison_table(measured: Measured, most: int | None) -> str | None:
    """Each variant at each load point, with ratios to the baseline; None without any."""
    plan, comparison = measured.plan, measured.comparison
    if not len(comparison):
        return None
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
        _cells(measured, row)[: len(heads)] + [wording.number(row[column]) for column in costs]
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


def _cells(measured: Measured, row: dict[str, Any]) -> list[str]:
    metrics = ("ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms", "output_throughput_tok_s")
    is_baseline = row["variant"] == measured.plan.baseline
    status = row["status"]
    if row["measurements"] > 1:
        status += f", {row['ok']} of {row['measurements']}"
    return [
        text(row["workload"]),
        text(row["load_point"]),
        text(answer.marked(row["variant"], measured.dummies, measured.failing))
        + (" (baseline)" if is_baseline else ""),
        status,
        f"{row['requests']:,}" if row["ok"] else wording.NONE,
        *(_valued(row, metric, is_baseline) for metric in metrics),
        wording.number(row["acceptance_length"]),
    ]


def batch_table(measured: Measured, most: int | None) -> str | None:
    """How long each variant takes for each offline batch; None without one."""
    baseline = measured.plan.baseline
    rows = economy.batches(measured.comparison, baseline)
    if not rows:
        return None
    metrics = ("duration_s", "request_throughput_rps", "output_throughput_tok_s")
    cells = [
        [
            text(wording.where_of(row)),
            text(answer.marked(row["variant"], measured.dummies)),
            *(_valued(row, metric, row["variant"] == baseline) for metric in metrics),
        ]
        for row in rows[:most]
    ]
    heads = ["Batch", "Variant", "Time to finish, s", "Requests/s", "Output, tok/s"]
    return f"### Offline batch\n\n{pipe_table(heads, cells, numeric_from=2)}{left(rows, cells)}"


def turn_table(measured: Measured, most: int | None) -> str | None:
    """The first and the last turn of conversations; None without one."""
    rows = turns.first_and_last(measured.by_turn)
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
            text(answer.marked(row["variant"], measured.dummies)),
            f"{row['turns']}",
            *(turns.from_to(row, metric) for metric in metrics),
        ]
        for row in rows[:most]
    ]
    heads = ["Load point", "Variant", "Turns", *metrics.values()]
    told = "Values in the first and in the last turn."
    shown = pipe_table(heads, cells, numeric_from=2)
    return f"### Conversations by turn\n\n{told}\n\n{shown}{left(rows, cells)}"


def _valued(row: dict[str, Any], metric: str, is_baseline: bool) -> str:
    value, ratio = wording.number(row[metric]), known(row[f"{metric}_ratio"])
    return value if is_baseline or ratio is None else f"{value} ({wording.ratio(ratio)})"


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["workload"], row["load_point"]
