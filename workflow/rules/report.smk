# Tables and report.
rule collect_tables:
    """Tidy tables and metrics.json from the records of the plan."""
    input:
        unless_current(TABLES_WANTED, TABLES_WANTED.path),
        sessions=unless_current(
            TABLES_WANTED,
            all_sessions,
        ),
    output:
        f"{RESULTS}/load_points.parquet",
        f"{RESULTS}/load_points.csv",
        f"{RESULTS}/quantiles.parquet",
        f"{RESULTS}/turns.parquet",
        f"{RESULTS}/classes.parquet",
        f"{RESULTS}/capacities.parquet",
        f"{RESULTS}/probes.parquet",
        f"{RESULTS}/timeline.parquet",
        f"{RESULTS}/cached.parquet",
        f"{RESULTS}/quality.parquet",
        f"{RESULTS}/quality.csv",
        f"{RESULTS}/metrics.json",
        f"{RESULTS}/tables.sha256",
    log:
        f"logs/{PLAN.study}/tables.log",
    localrule: True
    params:
        plan=PLAN_FILE,
    message:
        "Tables"
    shell:
        "servetune --log {log} tables --plan {params.plan}"


FIRST_PAGE = [
    f"reports/partial/summary.{kind}" for kind in ("html", "md", "json", "sha256")
]


rule render_first_page:
    """A page of what is there after two sessions, until the whole one replaces it."""
    input:
        ancient([f"{RESULTS}/sessions/{each.id}.json" for each in FIRST]),
    output:
        temp(FIRST_PAGE),
    log:
        f"logs/{PLAN.study}/first-page.log",
    priority: BEFORE_SESSIONS
    localrule: True
    threads: all_cores
    params:
        plan=PLAN_FILE,
    message:
        "First page"
    shell:
        "servetune --log {log} report --partial --out reports/partial --plan {params.plan}"


rule render_report:
    """The report, as a page and for a pull request."""
    input:
        FIRST_PAGE if FIRST else [],
        unless_current(REPORT_WANTED, REPORT_WANTED.path),
        tables=unless_current(REPORT_WANTED, rules.collect_tables.output),
    output:
        report(
            "reports/summary.html",
            caption="../report/summary.rst",
            category="Report",
        ),
        "reports/summary.md",
        "reports/summary.json",
        "reports/summary.sha256",
    log:
        f"logs/{PLAN.study}/report.log",
    localrule: True
    params:
        plan=PLAN_FILE,
    message:
        "Report"
    shell:
        "servetune --log {log} report --plan {params.plan}"
