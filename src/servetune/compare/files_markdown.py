"""A comparison of result files as Markdown."""

from typing import Any

from servetune.analysis import wording
from servetune.compare.files import FileComparison
from servetune.imports.run import Run
from servetune.metrics import METRIC
from servetune.numbers import NONE, known, number, percent
from servetune.report.gfm import escaped, pipe_table, text
from servetune.report.verdicts import interval_of, unseen, wanting, word_of
from servetune.tables.frames import records_of

SHOWN = (
    *("output_throughput_tok_s", "request_throughput_rps", "total_throughput_tok_s"),
    *("slo_attainment_percent", "ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms"),
    *("tpot_p50_ms", "tpot_p90_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p99_ms"),
)

UNKNOWN = "not known"

_Key = tuple[str, str, str]


def render_files(found: FileComparison) -> str:
    """Render the verdicts, what qualifies them, and what was read."""
    others = [name for name in found.runs if name != found.baseline]
    blocks = [
        f"## servetune: {text(wording.listed(others))} against {text(found.baseline)}",
        f"**{_answer(found)}**",
        *(f"> {text(note)}" for note in found.cautions),
        *_tables(found, others),
        *filter(None, [text(unseen(found.verdicts))]),
        "### Files",
        _files(found),
    ]
    return "\n\n".join(blocks) + "\n"


def _answer(found: FileComparison) -> str:
    verdicts = found.verdicts
    if verdicts.empty:
        return "There is nothing to compare: no metric is known of both sides."
    if verdicts[["launches", "baseline_launches"]].to_numpy().max() <= 1:
        return (
            "One run each: undecided. It does not tell how much runs vary; give three files of"
            " each side, as NAME=FILE, for verdicts."
        )
    counts = [
        f"{count} {words[0]}"
        for words in (("slower",), ("faster",), ("indistinguishable",), ("undecided", "none"))
        if (count := found.count(*words))
    ]
    total = wording.plural(len(verdicts), "comparison")
    margin = percent(found.equivalence)
    return f"Of {total}: {wording.listed(counts)} (smallest difference of interest {margin})."


def _tables(found: FileComparison, others: list[str]) -> list[str]:
    means = {(row["variant"], row["load_point"]): row for row in found.means}
    verdicts = {_key(row): row for row in records_of(found.verdicts)}
    intervals = {_key(row): row for row in records_of(found.intervals)}
    blocks = []
    for name in others:
        points = [point for side, point in means if side == name]
        for point in points:
            here, base = means[name, point], means.get((found.baseline, point))
            title = text(f"{name} at {point} ({wording.load_of(here)})")
            blocks.append(f"### {title}" if point != "load" else f"### {text(name)}")
            if base is None:
                blocks.append(f"{text(found.baseline)} was not measured there.")
                continue
            rows = [
                [text(METRIC[metric].column), *cells]
                for metric in SHOWN
                if (cells := _cells(metric, base, here, verdicts, intervals))
            ]
            heads = ["Metric", text(found.baseline), text(name), "Ratio", "Verdict"]
            blocks.append(pipe_table(heads, rows, numeric_from=1))
    return blocks


def _cells(
    metric: str,
    base: dict[str, Any],
    here: dict[str, Any],
    verdicts: dict[_Key, dict[str, Any]],
    intervals: dict[_Key, dict[str, Any]],
) -> list[str]:
    """Write the two values, their ratio and the verdict; nothing where neither is known."""
    values = [known(row[metric]) for row in (base, here)]
    if values == [None, None]:
        return []
    sides = [
        _value(value, intervals.get((row["variant"], row["load_point"], metric)))
        for value, row in zip(values, (base, here), strict=True)
    ]
    verdict = verdicts.get((here["variant"], here["load_point"], metric))
    if None in values:
        return [*sides, NONE, UNKNOWN]
    if verdict:
        low, high = known(verdict["ratio_low"]), known(verdict["ratio_high"])
        return [*sides, escaped(interval_of(verdict["ratio"], low, high)), _verdict(verdict)]
    return [*sides, wording.ratio(here.get(f"{metric}_ratio")), NONE]


def _value(value: float | None, within: dict[str, Any] | None) -> str:
    """Write a value, with its interval within the run, or over the runs."""
    if value is None:
        return UNKNOWN
    low, high = (known(within[end]) for end in ("low", "high")) if within else (None, None)
    if low is None or high is None:
        return number(value)
    return f"{number(value)} \\[{number(low)}, {number(high)}\\]"


def _verdict(row: dict[str, Any]) -> str:
    if row["verdict"] == "none" and min(row["launches"], row["baseline_launches"]) == 1:
        return (
            "undecided: one run each"
            if row["launches"] == row["baseline_launches"]
            else ("undecided: one run of a side")
        )
    more = wanting(row)
    return f"{word_of(row)}; {escaped(more)}" if more else word_of(row)


def _key(row: dict[str, Any]) -> _Key:
    return row["variant"], row["load_point"], row["metric"]


def _files(found: FileComparison) -> str:
    rows = [
        [
            text(name),
            text(run.file),
            text(" ".join(filter(None, (run.tool, run.version)))),
            text(run.model or UNKNOWN),
            text(run.started_at or UNKNOWN),
            UNKNOWN if run.load_point == "load" else text(run.load_point),
            _count(run.completed_requests),
            _count(run.failed_requests),
            text(_status(run)),
        ]
        for name, side in found.runs.items()
        for run in side
    ]
    heads = ["Side", "File", "Tool", "Model", "Started", "Load point", "Answered", "Failed", "Is"]
    return pipe_table(heads, rows, numeric_from=9)


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _status(run: Run) -> str:
    problem = run.problem
    what = "its requests" if run.requests is not None else "aggregates alone"
    return f"{problem[0]}: {problem[1]}" if problem else f"ok: {what}"
