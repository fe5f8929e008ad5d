"""Where the start of each server went, and what it then has room for."""

from typing import Any

from servetune.analysis.findings.gather import Case
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.startup.charts import PHASES, phases
from servetune.report.table import Cell, Name, Table
from servetune.report.wording import number, whole
from servetune.tables.frames import known

GIB = 2**30

SAID = (
    "Where the time from launch to ready went, and what the server then has room for. Weights are"
    " memory on one device, or the size of the checkpoint where the server does not tell."
)


def section(measured: Measured) -> Section | None:
    """Make the section; None where no server told the phases of its start."""
    starts = _starts(measured.served)
    chart = phases(starts, measured.variants)
    if chart is None:
        return None
    rows: list[list[Cell]] = [
        [
            *(Name(row["variant"]), str(row["repeat"]), number(row["startup_s"])),
            *(number(row[column]) for column in PHASES),
            *(number(row[name]) for name in ("weights_gib", "kv_cache_gib")),
            whole(row["kv_cache_tokens"]),
            number(row["kv_cache_max_concurrency"]),
        ]
        for row in starts
    ]
    spent = (f"{name.capitalize()}, s" for name in PHASES.values())
    heads = ("Variant", "Repeat", "Start, s", *spent, "Weights, GiB", "KV cache, GiB", "Tokens")
    table = Table(
        "Start-up", (*heads, "Requests of max_model_len"), rows, ("Variant",), ("after", "")
    )
    words = Plain(SAID, table, {"startup": "Time by phase"})
    return Section("startup", "Start-up", words, {"startup": chart})


def _starts(served: list[Case]) -> list[dict[str, Any]]:
    """One row a start: the facts of its server, and the memory of its KV cache and weights."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for case in served:
        row = dict(case.row)
        tokens, engine = known(row.get("kv_cache_tokens")), case.engine
        if known(row.get("weights_gib")) is None and engine:
            row["weights_gib"] = engine.model.stored_bytes / GIB
        if known(row.get("kv_cache_gib")) is None and engine and tokens:
            kept = 1 if str(row.get("kv_cache_dtype")).startswith(("fp8", "int8")) else 2
            row["kv_cache_gib"] = tokens * engine.model.kv_values_per_token * kept / GIB
        if known(row.get("startup_s")) is not None:
            found.setdefault((row["session"], row["launch"]), row)
    return list(found.values())
