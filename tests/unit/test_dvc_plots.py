from pathlib import Path

from servetune.report.dvc_plots import TEMPLATE, template

ROOT = Path(__file__).parents[2]


def test_the_template_of_dvc_is_made_by_the_reports_chart_code() -> None:
    assert (ROOT / TEMPLATE).read_text() == template()
