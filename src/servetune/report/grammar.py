"""What all charts share: how a variant looks, what the reader may select, how a chart ends.

Charts are Vega-Lite specifications made with Altair. They name no colour: colours come from the
theme that the page picks (see `palette`). What the reader selects are parameters that the page
sets: `hidden` (variants not shown), `where` (workload and load point), `workload` and
`percentile`. Names that users gave occur as data only, never inside an expression.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import pandas as pd

from servetune.analysis.wording import listed, where_of
from servetune.numbers import known
from servetune.report.palette import SIDE_SHAPES
from servetune.tables.frames import records_of

Spec = dict[str, Any]


def places_of(table: pd.DataFrame) -> list[str]:
    """Name the workloads and load points of a table, each once, in its order."""
    places = table[["workload", "load_point"]].drop_duplicates()
    return [where_of(row) for row in records_of(places)]


def heaviest(table: pd.DataFrame) -> str:
    """Name the last load point of the first workload: what is shown until the reader selects."""
    return places_of(table[table["workload"] == table["workload"].iloc[0]])[-1]


def positions_of(values: Any) -> list[float]:
    """Read the acceptance by position: a list, an array of a Parquet file, or none."""
    return [] if values is None or isinstance(values, float) else [float(v) for v in values]


def short(value: Any) -> float:
    """Round a number to four digits, as a chart shows no more; 0 for none."""
    return float(f"{known(value) or 0.0:.4g}")


def look(variants: list[str], sides: Sequence[str] = ()) -> tuple[alt.Color, alt.Shape]:
    """Encode a variant by colour and shape; where there are sides, the shape is theirs."""
    # The domain is given, so that a variant looks the same in every chart, whatever it lacks.
    scale = alt.Scale(domain=variants)
    shape = (
        alt.Shape("side:N", scale=alt.Scale(domain=[*sides], range=[*SIDE_SHAPES]), legend=None)
        if sides
        else alt.Shape("variant:N", scale=scale, legend=None)
    )
    return alt.Color("variant:N", scale=scale, legend=None), shape


def dashed(sides: Sequence[str]) -> list[alt.StrokeDash]:
    """Encode the side of a line by its dashes, where there are sides: the first has none."""
    scale = alt.Scale(domain=[*sides], range=[[1, 0], [6, 4]])
    return [alt.StrokeDash("side:N", scale=scale, legend=None)] if sides else []


def place_axis(places: list[str]) -> alt.Y:
    """Make the axis of load points, a band each; a name may have several lines."""
    return alt.Y(
        "where:N",
        sort=places,
        scale=alt.Scale(paddingInner=0.45, paddingOuter=0.25),
        axis=alt.Axis(title=None, ticks=False, domain=False, labelExpr="split(datum.label, '\\n')"),
    )


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks for a logarithmic axis: 1, 2 and 5 of each decade, or 1 alone if many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    inside = [tick for tick in fine if low <= tick <= high]
    return inside if len(inside) <= 6 else [10.0**d for d in decades if low <= 10.0**d <= high]


def tooltip(title: str, field: str) -> list[alt.Tooltip]:
    """Tell the variant, and a text that a field holds."""
    return [alt.Tooltip("variant:N", title="variant"), alt.Tooltip(f"{field}:N", title=title)]


def points(
    base: alt.Chart,
    variants: list[str],
    title: str,
    size: int = 80,
    sides: Sequence[str] = (),
) -> alt.Chart:
    """Mark rows by points, each with the look of its variant and the text of its field `shown`."""
    colour, shape = look(variants, sides)
    marks: alt.Chart = base.mark_point(filled=True, opacity=1, size=size).encode(
        colour, shape, tooltip=tooltip(title, "shown")
    )
    return marks


def at_place() -> alt.Chart:
    """Begin a chart of the rows at the place that the reader selects, of the variants shown."""
    selected = "datum.where === where && indexof(hidden, datum.variant) < 0"
    return alt.Chart(data()).transform_filter(selected)


def curves(
    lines: alt.Chart,
    marks: alt.Chart,
    variants: list[str],
    title: str,
    size: int = 60,
    above: Iterable[alt.Chart] = (),
) -> alt.LayerChart:
    """Draw lines and the points on them, and what stands above both."""
    coloured = lines.mark_line().encode(look(variants)[0])
    return layered(coloured, points(marks, variants, title, size), *above)


def shown(chart: alt.LayerChart) -> alt.LayerChart:
    """Leave out the variants that the reader hides, in a chart without another selection."""
    return chart.transform_filter("indexof(hidden, datum.variant) < 0")


def layered(*layers: alt.Chart | alt.LayerChart) -> alt.LayerChart:
    """Lay charts over each other."""
    # alt.layer says that it may return a faceted chart, which it does for faceted layers only.
    return alt.LayerChart(layer=list(layers))


def distinct(rows: list[dict[str, Any]], key: str) -> list[str]:
    """Return the values of a key, each once, in their order."""
    return list(dict.fromkeys(row[key] for row in rows))


def says(parts: list[str]) -> str:
    """Put a chart into words for those who do not see it; the tables hold the rest."""
    most = 12
    more = f"; and {len(parts) - most} more, in the tables" if len(parts) > most else ""
    return f"{listed(parts[:most])}{more}." if parts else ""


def data(name: str = "rows") -> alt.NamedData:
    """Name rows that `spec` brings: Altair would copy them at every step of a chart."""
    return alt.NamedData(name=name)


def spec(
    chart: alt.LayerChart,
    description: str,
    height: int,
    selected: dict[str, Any] | None = None,
    **rows: list[dict[str, Any]],
) -> Spec:
    """Finish a chart: as wide as its place, with a text alternative and its data by name.

    `height` is in pixels. `selected` holds what the reader selects, with what is shown until then.
    """
    # Altair has checked each part as it was made; checking the whole takes as long as all else.
    made = chart.to_dict(validate=False)
    del made["config"]  # the page's theme decides
    # Not through Altair, which copies the whole chart for each of these.
    params = {"hidden": [], **(selected or {})}
    return {
        **made,
        "description": description,
        "width": "container",
        "height": height,
        # Laid out again at every update: the labels of another axis need another place.
        "autosize": {"type": "fit-x", "contains": "padding", "resize": True},
        "params": [
            *({"name": name, "value": value} for name, value in params.items()),
            *made.get("params", []),
        ],
        "datasets": rows,
    }
