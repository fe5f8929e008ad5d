# Tables and report. Whether they are current is decided by content, not by times of change.
from servetune.freshness import report_digest, tables_digest, wanted

TABLES_WANTED = wanted(f"{RESULTS}/tables.sha256", tables_digest(PLAN, Path()))
REPORT_WANTED = wanted("reports/summary.sha256", report_digest(PLAN, Path()))


rule collect_tables:
    """Tidy tables and metrics.json from the records of the plan."""
    input:
        ancient(TABLES_WANTED.path) if TABLES_WANTED.is_current else TABLES_WANTED.path,
        sessions=ancient(collect(RESULTS + "/sessions/{session}.json", session=SESSIONS)),
    output:
        f"{RESULTS}/load_points.parquet",
        f"{RESULTS}/load_points.csv",
        f"{RESULTS}/quantiles.parquet",
        f"{RESULTS}/metrics.json",
        f"{RESULTS}/tables.sha256",
    message:
        "Tables"
    shell:
        "servetune tables --plan {PLAN_FILE}"


rule render_report:
    """The report, as a page and for a pull request."""
    input:
        ancient(REPORT_WANTED.path) if REPORT_WANTED.is_current else REPORT_WANTED.path,
        tables=ancient(rules.collect_tables.output),
    output:
        "reports/summary.html",
        "reports/summary.md",
        "reports/summary.sha256",
    message:
        "Report"
    shell:
        "servetune report --plan {PLAN_FILE}"
