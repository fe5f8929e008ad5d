"""What each variant's KV cache has room for."""

from typing import Any

from servetune.analysis.comparison import compare_kv_cache
from servetune.report.gfm import table_of
from servetune.report.kv_cache.charts import kv_cache
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Table
from servetune.report.wording import TIMES, number, ratio, whole
from servetune.tables.frames import records_of


def section(measured: Measured) -> Section:
    """Make the section."""
    found = compare_kv_cache(measured.table, measured.plan.baseline)
    rows: list[list[Cell]] = [
        [
            Name(row["variant"]),
            _tokens(row),
            ratio(row["kv_cache_tokens_ratio"]),
            number(row["kv_cache_max_concurrency"]),
            number(row["startup_s"]),
        ]
        for row in records_of(found)
    ]
    heads = ("Variant", "Tokens", f"{TIMES} baseline", "Max concurrency", "Start-up, s")
    table = Table("KV cache", heads, rows, texts=("Variant",))
    columns = {"KV-cache tokens" if head == "Tokens" else head: head for head in heads[:4]}
    return Section(
        "kv-cache",
        "KV cache",
        table,
        {"kv-cache": kv_cache(found, measured.variants)},
        lambda fit: table_of(measured, table.pick(columns)),
    )


def _tokens(row: dict[str, Any]) -> str:
    """Write the smallest size over the variant's servers, and the largest if it differs."""
    least, most = row["kv_cache_tokens"], row["kv_cache_tokens_max"]
    return f"{whole(least)} to {whole(most)}" if most and most > least else whole(least)
