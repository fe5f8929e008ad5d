"""The template of `dvc plots diff`, with the look of the report's charts.

`uv run python -m servetune.report.dvc_plots` writes `.dvc/plots/by_variant.json` again.
"""

import json
from pathlib import Path

import altair as alt

from servetune.files import write_text
from servetune.report.grammar import Spec
from servetune.report.palette import SERIES, TOKENS, vega_config

TEMPLATE = Path(".dvc", "plots", "by_variant.json")

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
"""The page that DVC writes loads Vega-Lite 5."""


def by_variant() -> Spec:
    """Draw a metric over the load: a colour a variant, a dash and a shape a revision.

    Points are runs, lines join their means. DVC gives all values as text.
    """
    x = alt.X(
        "load:Q", axis=alt.Axis(title="<DVC_METRIC_X_LABEL>", tickMinStep=1), scale=alt.Scale()
    )
    title = "<DVC_METRIC_Y_LABEL>"
    base = alt.Chart().encode(x, alt.Color("variant:N"))
    lines = base.mark_line().encode(
        alt.Y("mean(value):Q", title=title),
        alt.StrokeDash("rev:N", title="revision", legend=alt.Legend(symbolSize=300)),
    )
    runs = base.mark_point(filled=True, opacity=0.6).encode(
        alt.Y("value:Q", title=title), alt.Shape("rev:N", title="revision")
    )
    data = alt.Data(values="<DVC_METRIC_DATA>")  # type: ignore[no-untyped-call]
    chart = (
        alt.layer(lines, runs, data=data)
        .properties(width=420, height=220)
        .transform_filter("datum.status == 'ok'")
        .transform_filter("datum.rate_rps !== 'inf'")
        .transform_calculate(
            load="toNumber(datum.rate_rps) || toNumber(datum['<DVC_METRIC_X>'])",
            value="toNumber(datum['<DVC_METRIC_Y>'])",
        )
        .transform_filter("isValid(datum.load) && datum.load > 0")
        .facet(row=alt.Row("workload:N", title=None))
        .properties(title="<DVC_METRIC_TITLE>")
    )
    colours = [TOKENS["light"]["ink"], *(light for light, _ in SERIES)]
    config = {**vega_config("light", []), "background": "white", "range": {"category": colours}}
    return {**chart.to_dict(), "$schema": SCHEMA, "config": config}


def template() -> str:
    """Return the text of the template's file."""
    return json.dumps(by_variant(), indent=1) + "\n"


if __name__ == "__main__":
    write_text(TEMPLATE, template())
