"""Two revisions of the quickstart with made numbers, compared."""

import pandas as pd

from servetune.compare.comparison import Comparison, compare_sides
from servetune.compare.sides import Side
from servetune.plan.planned import Plan
from tests.report_data import ReportData, make_data, make_quickstart_plan

HERE, BASE = "this revision", "main (0123456789ab)"


def side(label: str, table: pd.DataFrame, quantiles: pd.DataFrame) -> Side:
    none = pd.DataFrame()
    return Side(label, {"study": "quickstart"}, {}, table, quantiles, {}, none, none)


def measured_before(data: ReportData, label: str, times: float) -> Side:
    """The same study with other launches, whose servers gave so many times the tokens."""
    table = data.table.assign(measurement="before-" + data.table["measurement"])
    for name in ("output_throughput_tok_s", "output_throughput_tok_s_per_gpu"):
        table[name] *= times
    distributions = data.quantiles.assign(measurement="before-" + data.quantiles["measurement"])
    return side(label, table, distributions)


def make_comparison() -> tuple[Comparison, Plan]:
    """Compare with a base of half the throughput; a load point of w8a8 is invalid on both sides."""
    data = make_data(make_quickstart_plan(repeats=3), invalid={"w8a8-text-c8": "late"})
    here = side(HERE, data.table, data.quantiles)
    return compare_sides(measured_before(data, BASE, 0.5), here, 0.03), data.plan
