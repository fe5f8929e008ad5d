import json

from servetune.report.palette import SERIES, TOKENS, vega_config
from tests.paths import ROOT


def test_the_template_of_dvc_has_the_look_of_the_reports_charts() -> None:
    template = json.loads((ROOT / ".dvc/plots/by_variant.json").read_text())
    colours = [TOKENS["light"]["ink"], *(light for light, _ in SERIES)]
    look = {"background": "white", "range": {"category": colours}}
    assert template["config"] == {**vega_config("light", []), **look}
