"""A metric over the commits that measured it, and where it moved.

Each commit is judged against the level, which is the commit where the metric moved last, or the
first: a slow creep is found too, which each commit against the one before it would hide. Verdicts
are those of `servetune.analysis.verdicts.judge_revisions`, whose error holds over one commit.
"""

import pandas as pd

from servetune.analysis.launches import intervals, launch_values
from servetune.analysis.lockstep import LOCKSTEP
from servetune.analysis.verdicts import compare_revisions
from servetune.metrics import JUDGED, METRIC
from servetune.tables.committed import PLACE
from servetune.tables.history import Measuring

KEY = [*PLACE, "metric"]

MOVED = ("faster", "slower")

STAYED = ("indistinguishable", "undecided", LOCKSTEP)

MEASURED = ("measured_at", "vllm_version", "launches", "value", "low", "high")
JUDGED_AS = ("against", "ratio", "ratio_low", "ratio_high", "verdict")

COLUMNS = (*KEY, "commit", *MEASURED, *JUDGED_AS)


def follow(
    history: list[Measuring], equivalence: float, metrics: tuple[str, ...] = JUDGED
) -> pd.DataFrame:
    """Return one row a (commit, variant, workload, load_point, metric), the oldest commit first.

    Verdicts are corrected over the metrics together, as in every comparison of revisions.

    `launches` are the ok ones behind `value`, whose interval at 95 % (see
    `servetune.analysis.launches.intervals`) is `low` and `high`. `ratio` is to the commit
    `against`; `verdict` is NaN where nothing is compared: the first, launches that both have, a
    metric without a better way.
    """
    level = pd.DataFrame(columns=[*KEY, "commit"])
    parts = [pd.DataFrame(columns=list(COLUMNS))]
    for measuring in history:
        values = launch_values(measuring.with_cards, measuring.quantiles, metrics)
        values = values.assign(commit=measuring.commit)
        verdicts = _verdicts(values, level, equivalence)
        about = (
            measuring.table.groupby(PLACE, sort=False)
            .agg(measured_at=("started_at", _last), vllm_version=("vllm_version", _listed))
            .reset_index()
            .assign(commit=measuring.commit)
            .merge(pd.Series(metrics, name="metric"), how="cross")
        )
        rows = about.merge(intervals(values), how="left", on=KEY).merge(
            verdicts, how="left", on=KEY
        )
        parts.append(rows.assign(launches=rows["launches"].fillna(0).astype(int)))
        stays = verdicts[verdicts["verdict"].isin(STAYED)]
        moved = values[~_index(values).isin(_index(stays))]
        level = pd.concat([level[~_index(level).isin(_index(moved))], moved])
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]


def _verdicts(values: pd.DataFrame, level: pd.DataFrame, equivalence: float) -> pd.DataFrame:
    """Judge launches against those of the level, with the commit of these as `against`."""
    judged = values[values["metric"].map(lambda name: METRIC[name].better is not None)]
    if judged.empty or level.empty:
        return pd.DataFrame(columns=[*KEY, *JUDGED_AS])
    since = level[[*KEY, "commit"]].drop_duplicates().rename(columns={"commit": "against"})
    verdicts = compare_revisions(judged, level, equivalence).merge(since, how="left", on=KEY)
    return verdicts[[*KEY, *JUDGED_AS]]


def _last(times: "pd.Series[str]") -> str | None:
    return max(times.dropna(), default=None)


def _listed(versions: "pd.Series[str]") -> str:
    return ", ".join(sorted(map(str, versions.dropna().unique())))


def _index(rows: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(rows[KEY])
