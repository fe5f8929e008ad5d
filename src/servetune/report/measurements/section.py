"""All measurements, a row each, whatever became of them."""

from servetune.analysis.wording import plural
from servetune.metrics import METRIC, WHOLE_LOAD
from servetune.numbers import number, percent, whole
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Name, Styled, Table
from servetune.report.throughput import window_of
from servetune.tables.frames import records_of

SAID = (
    "Latencies in milliseconds; invalid rows show what was measured, and count nowhere else. Output"
    " over the whole load is what vllm bench serve prints."
)

PERCENTILES = [f"{name}_p{p}_ms" for name in ("ttft", "tpot", "e2e") for p in (50, 90, 99)]
"""Middle and tails: a table has no room for all that a record holds."""

COLUMNS = {
    "completed_requests": ("Requests", whole),
    "failed_requests": ("Failed", whole),
    "duration_s": ("Duration, s", number),
    **{name: (METRIC[name].title, number) for name in PERCENTILES},
    "itl_p50_ms": ("ITL p50", number),
    "output_throughput_tok_s": ("Output, tok/s", number),
    WHOLE_LOAD: ("Output over the whole load, tok/s", number),
    "request_throughput_rps": ("Requests/s", number),
    "prefix_cache_hit_ratio": ("Prefix-cache hits", percent),
    "preemptions": ("Preemptions", whole),
}
"""The numbers of a measurement by column: the head, and how they are written."""


def section(measured: Measured) -> Section:
    """Make the section."""
    columns = {**COLUMNS, **{name: (head, number) for name, head in measured.costs.items()}}
    rows = [
        [
            *(Name(row["variant"]), row["workload"], row["load_point"], str(row["repeat"])),
            Styled(row["status"], f"status {row['status']}"),
            *(write(row[name]) for name, (_, write) in columns.items()),
            window_of(row),
            row["measurement"],
        ]
        for row in records_of(measured.table)
    ]
    texts = ("Variant", "Workload", "Load point", "Repeat", "Status", "Throughput", "Measurement")
    heads = (*texts[:5], *(head for head, _ in columns.values()), *texts[5:])
    table = Table("All measurements", heads, rows, texts, css=("tall", "dense figures"))
    words = Plain(SAID, table)
    return Section("measurements", "All measurements", words, counts=plural(len(rows), "row"))
