"""What the analysis and the report of 1,000 runs of 1,000 requests cost.

    uv run python benchmarks/report_scale.py

Prints the time of making the tables, time and memory of the analysis, the size of the page, and how
long Chromium takes until it is loaded and until its charts are drawn.
"""

import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from servetune.analysis.judgement import judge_study
from servetune.analysis.launches import percentile_intervals
from servetune.report.html import render_html
from servetune.tables.write import load_points, ok_records, quantiles
from tests.report_data import ReportData, make_data, make_quickstart_plan

REPEATS = 50
REQUESTS = 1000


def make_runs() -> ReportData:
    """Make 1,000 measurements: four variants, five load points, fifty repeats."""
    plan = make_quickstart_plan(repeats=REPEATS)
    sessions = [
        session.model_copy(
            update={
                "measurements": [
                    m.model_copy(update={"load": m.load.model_copy(update={"requests": REQUESTS})})
                    for m in session.measurements
                ]
            }
        )
        for session in plan.sessions
    ]
    return make_data(plan.model_copy(update={"sessions": sessions}))


def opened_s(page: Path) -> tuple[float, float]:
    """Return how long Chromium takes until the page is loaded, and until its charts are drawn."""
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        tab = browser.new_page()
        began = time.monotonic()
        tab.goto(page.as_uri())
        loaded = time.monotonic() - began
        tab.wait_for_selector("html[data-drawn]", state="attached")
        drawn = time.monotonic() - began
        browser.close()
    return loaded, drawn


def main() -> None:
    data = make_runs()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    load_points(data.plan, data.records)
    quantiles(ok_records(data.plan, data.records))
    tabled = time.monotonic() - began
    began = time.monotonic()
    judgement = judge_study(data.design, data.table, data.quantiles)
    percentile_intervals(data.table, data.quantiles)
    analysed = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{len(data.table):,} runs of {REQUESTS:,} requests, {len(judgement.verdicts)} verdicts")
    print(f"tables, from their records: {tabled:.1f} s")
    print(f"analysis: {analysed:.1f} s, peak {peak / 1e6:.2f} GB ({before / 1e6:.2f} before it)")
    began = time.monotonic()
    page = render_html(data)
    print(
        f"report: {len(page.encode()) / 1e6:.1f} MB, rendered in {time.monotonic() - began:.1f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "summary.html")
        path.write_text(page, encoding="utf-8")
        for _ in range(3):
            loaded, drawn = opened_s(path)
            print(f"opened in Chromium: {loaded:.1f} s, all charts drawn: {drawn:.1f} s")


if __name__ == "__main__":
    main()
