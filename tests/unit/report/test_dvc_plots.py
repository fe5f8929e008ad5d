from servetune.report.dvc_plots import TEMPLATE, template
from tests.paths import ROOT


def test_the_template_of_dvc_is_made_by_the_reports_chart_code() -> None:
    assert (ROOT / TEMPLATE).read_text() == template()
