"""What each launch says of a metric: the values that all comparisons start from."""

from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis import wording
from servetune.analysis.devices import shares
from servetune.analysis.differences import NORMAL, Floats, Group, t_quantile
from servetune.analysis.lockstep import is_of_wave, waves
from servetune.analysis.spread import spread
from servetune.metrics import JUDGED, METRIC, METRICS, PERCENTILES, Metric
from servetune.records.sessions import SEVERAL
from servetune.tables.frames import DECIDED_FROM, measured_together, numbers, records_of

PLACE = ["workload", "load_point", "metric"]

INTERVALS = tuple(f"{latency}_p{p}_ms" for latency in ("ttft", "tpot", "e2e") for p in PERCENTILES)
"""The percentiles that get an interval."""

SHARES = [metric.name for metric in METRICS if metric.needs_slo]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_OF_SOME = ("endpoint", "ended_at", DECIDED_FROM)
"""Columns of studies with an endpoint, or with a rule that launches until it is decided."""

_PACE = ["concurrency", "rate_rps"]


def launch_values(
    table: pd.DataFrame, quantiles: pd.DataFrame, metrics: tuple[str, ...] = JUDGED
) -> pd.DataFrame:
    """Return one row a (measurement that is ok, metric), from the tidy table and distributions.

    Columns variant, repeat, order, started_at, session, device (None: not known, as in older
    tables), servers (those that variants share; None: its own), measurement, workload, load_point,
    metric, value, log_value, request_variance: of the log value, from the requests of this launch
    alone; NaN where it is not known, as of a throughput; and in_lockstep: a TTFT of a load point at
    which any clients run in lockstep. Of a study with an endpoint, also ended_at and endpoint
    (`servetune.tables.endpoints`); of one that launches until decided, also decided_from.
    A throughput has no row where a rate or a trace sets the pace: it is the pace, and says nothing
    of the server. SLO attainment has one only there. Its log value counts half a request more, so
    that there is one where none is within (Walter, Biometrika 62, 1975).
    """
    ok = table[table["status"] == "ok"]
    ok = ok.assign(device=ok.get("device"), servers=ok.get("servers"))
    paced = ["load_point", *_PACE]
    rows = records_of(ok.reindex(columns=paced))
    is_paced = np.array([wording.is_paced(row) for row in rows], dtype=bool)
    about = ["variant", "repeat", "order", "started_at", "session", "device", "servers"]
    about += ["measurement", *(name for name in _OF_SOME if name in ok)]
    kept = ok[[*about, *PLACE[:2], "completed_requests"]]
    parts = [
        kept[at].assign(metric=name, value=numbers(ok.loc[at, name]))
        for name in metrics
        if name in ok
        for at in [_judged_at(METRIC[name], is_paced)]
    ]
    long = pd.concat(parts, ignore_index=True)
    is_share = long["metric"].isin(SHARES)
    is_number = long["value"].between(0, np.inf, inclusive="neither")
    long = long[is_number | (is_share & (long["value"] == 0))].reset_index(drop=True)
    long["log_value"] = np.log(long["value"].where(long["value"] > 0))
    long["request_variance"] = _request_variances(long, quantiles)
    at = pd.MultiIndex.from_frame(long[PLACE[:2]])
    long["in_lockstep"] = at.isin([*waves(table)]) & long["metric"].map(is_of_wave).astype(bool)
    shares = long[long["metric"].isin(SHARES)]
    requests = shares["completed_requests"].astype(float)
    within = shares["value"] / 100 * requests + 0.5
    long.loc[shares.index, "log_value"] = np.log(100 * within / (requests + 0.5))
    # One request more keeps the variance above 0 where all are within.
    long.loc[shares.index, "request_variance"] = 1 / within - 1 / (requests + 1)
    return long.drop(columns="completed_requests")


def at_first_look(values: pd.DataFrame) -> pd.DataFrame:
    """Leave out launches that were chosen by what those before showed.

    What is judged at one look, by the level of one, takes no others.
    """
    if DECIDED_FROM not in values:
        return values
    return values[~(values["repeat"] > values[DECIDED_FROM].astype(float))]


def _judged_at(metric: Metric, is_paced: Flags) -> Flags:
    if metric.needs_slo:
        return is_paced
    return ~is_paced if metric.better == "higher" else np.ones_like(is_paced)


def _request_variances(long: pd.DataFrame, quantiles: pd.DataFrame) -> Floats:
    variances = np.full(len(long), np.nan)
    if quantiles.empty:
        return variances
    for metric in long["metric"].unique():
        latency, _, rest = str(metric).partition("_p")
        if latency not in ("ttft", "tpot", "e2e"):
            continue
        rows = np.flatnonzero(long["metric"] == metric)
        wide = quantiles[quantiles["latency"] == latency].pivot_table(
            index="measurement", columns="probability", values="value_ms"
        )
        here = long.iloc[rows]
        curves = wide.reindex(here["measurement"]).to_numpy(dtype=float)
        low, high = quantile_interval(
            curves,
            wide.columns.to_numpy(dtype=float),
            int(rest.partition("_")[0]) / 100,
            here["completed_requests"].to_numpy(dtype=float),
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            variances[rows] = (np.log(high / low) / (2 * NORMAL)) ** 2
    return np.where(np.isfinite(variances), variances, np.nan)


def quantile_interval(
    curves: Floats, probabilities: Floats, at: float, requests: Floats
) -> tuple[Floats, Floats]:
    """Return the distribution-free interval at 95 % of a quantile, from the quantiles of samples.

    Woodruff, Confidence intervals for medians and other position measures (Journal of the
    American Statistical Association 47, 1952): the interval of the proportion, mapped through
    the quantile function. It takes requests to be independent; neighbours in a queue are not,
    so it is a lower bound of the uncertainty.

    Args:
        curves: quantiles of each sample, [samples, probabilities].
        probabilities: rising, in [0, 1].
        at: the quantile wanted, in [0, 1].
        requests: the size of each sample; where it is too small, the ends are NaN.
    """
    half = NORMAL * np.sqrt(at * (1 - at) / requests)
    return _read(curves, probabilities, at - half), _read(curves, probabilities, at + half)


def _read(curves: Floats, probabilities: Floats, at: Floats) -> Floats:
    """Interpolate each curve at a probability of its own; NaN outside of [0, 1]."""
    places = np.interp(at, probabilities, np.arange(len(probabilities)), np.nan, np.nan)
    below = np.nan_to_num(np.floor(places)).astype(int)
    above = np.minimum(below + 1, len(probabilities) - 1)
    rows, share = np.arange(len(curves)), places - below
    return np.asarray(curves[rows, below] * (1 - share) + curves[rows, above] * share)


def group_launches(values: pd.DataFrame) -> pd.DataFrame:
    """Reduce launch values to one row a (variant, workload, load_point, metric), in their order.

    Columns `launches`, `mean` and `variance` (of log values), `degrees` (of freedom of the
    variance), `request_variance` (the mean) and `in_lockstep`.
    """
    return (
        values.groupby(["variant", *PLACE], sort=False)
        .agg(
            launches=("log_value", "size"),
            mean=("log_value", "mean"),
            variance=("log_value", "var"),
            request_variance=("request_variance", "mean"),
            in_lockstep=("in_lockstep", "any"),
        )
        .reset_index()
        .assign(degrees=lambda groups: groups["launches"] - 1)
    )


def pool_launches(
    values: pd.DataFrame, *, has_rounds: bool = True, is_shared: bool = False
) -> pd.DataFrame:
    """Reduce launch values as `group_launches` does, with the variance that all variants tell.

    `planned_variance` is the one to plan further launches with.
    `is_blocked` tells where launches were compared within their rounds, and variants with the same
    `group` met on the same devices. `has_rounds` is False if launches of the same repeat were not
    measured side by side, and then not compared within their devices either. Variants that share
    launches are one in what they tell of how much launches vary, unless the values `is_shared`:
    all are of variants that met on each launch, which is a round.
    """
    groups = group_launches(values)
    if groups.empty:
        return groups.assign(planned_variance=np.nan, is_blocked=False, group=0)
    again = values.groupby(["variant", *PLACE, "repeat"]).cumcount()
    rounds, _ = pd.factorize(pd.MultiIndex.from_arrays([values["repeat"], again]))
    keys = [["metric"], ["workload", "load_point"], ["variant"]]
    known = [pd.MultiIndex.from_frame(groups[key].drop_duplicates()) for key in keys]
    of_values, of_groups = (
        tuple(
            index.get_indexer(pd.MultiIndex.from_frame(rows[key]))
            for index, key in zip(known, keys, strict=True)
        )
        for rows in (values, groups)
    )
    launches = np.full([*map(len, known), rounds.max() + 1], np.nan)
    launches[*of_values, rounds] = values["log_value"]
    devices = None
    if has_rounds and "device" in values:
        of_launches = shares([str(name) for name in values["device"].fillna("")])
        devices = np.zeros((*launches.shape[-2:], of_launches.shape[-1]))
        devices[of_values[-1], rounds] = of_launches
    sizes = {} if is_shared else measured_together(values)
    together = np.array([sizes.get(str(variant), 1) for (variant,) in known[-1]])
    pooled = spread(
        launches,
        has_rounds=has_rounds and bool((together == 1).all()),
        devices=devices,
        together=together,
        is_shared=is_shared,
    )
    return groups.assign(
        mean=pooled.mean[of_groups],
        variance=pooled.variance[of_groups],
        degrees=pooled.degrees[of_groups],
        planned_variance=pooled.planned[of_groups],
        is_blocked=pooled.is_blocked[of_groups[0]],
        group=pooled.groups[of_groups],
    )


def pool_shared_launches(values: pd.DataFrame) -> pd.DataFrame:
    """Reduce launch values as `pool_launches` does, of variants that share launches of servers.

    Those that met have the same `group`. A launch of servers is a round of theirs, whatever the
    repeats that it was measured for.
    """
    if "servers" not in values:
        values = values.assign(servers=None)
    known = values.dropna(subset=["servers"])
    met = known[known.groupby("servers")["variant"].transform("nunique") > 1]
    parts = []
    for number, variants in enumerate(_that_met(met)):
        rows = met[met["variant"].isin(variants)]
        rounds = pd.factorize(rows["servers"])[0]
        pooled = pool_launches(rows.assign(repeat=rounds, device=None), is_shared=True)
        parts.append(pooled.assign(group=number))
    return pd.concat(parts) if parts else pool_launches(met)


def _that_met(met: pd.DataFrame) -> list[set[str]]:
    """Return the sets of variants that share launches, directly or through others."""
    sets: list[set[str]] = []
    for _, names in met.groupby("servers", sort=False)["variant"]:
        found = {*map(str, names)}
        joined = [each for each in sets if each & found]
        sets = [each for each in sets if not each & found] + [found.union(*joined)]
    return sets


def on_the_same_devices(values: pd.DataFrame) -> dict[str, str]:
    """Return the devices of each variant whose launches had the same, where others had more."""
    known = values.dropna(subset=["device"])
    everywhere = devices_in(values)
    of = known.groupby("variant", sort=False)
    named = of["device"].unique()[of["session"].nunique() > 1]
    return {
        str(variant): str(used[0])
        for variant, used in named.items()
        if len(used) == 1 and not everywhere <= {*used[0].split(SEVERAL)}
    }


def devices_in(values: pd.DataFrame) -> set[str]:
    """Return the names of all devices that launches ran on."""
    return {one for name in values["device"].dropna().unique() for one in name.split(SEVERAL)}


def as_group(rows: pd.DataFrame, suffix: str = "", variance: str = "variance") -> Group:
    """Read columns of `group_launches` as the launches of many comparisons."""
    names = ("launches", "mean", variance, "request_variance", "degrees")
    return Group(*(rows[f"{name}{suffix}"].to_numpy(dtype=float) for name in names))


def percentile_intervals(table: pd.DataFrame, quantiles: pd.DataFrame) -> pd.DataFrame:
    """Give each of the percentiles INTERVALS its interval, as `intervals` does."""
    return intervals(launch_values(table, quantiles, INTERVALS))


def intervals(values: pd.DataFrame) -> pd.DataFrame:
    """Give launch values their intervals: one row a (variant, workload, load_point, metric).

    Columns variant, workload, load_point, metric, launches, value (geometric mean over the
    launches), low and high. With several launches the interval is Student's, of the launches' log
    values; with one it covers that launch's requests alone, and another launch may well lie
    outside. NaN where the requests are too few for an interval.
    """
    groups = group_launches(values)
    group = as_group(groups)
    of_launches = t_quantile(np.maximum(group.launches - 1, 1)) * np.sqrt(
        group.total_variance / group.launches
    )
    of_requests = NORMAL * np.sqrt(group.request_variance)
    half = np.where(group.launches > 1, of_launches, of_requests)
    return groups[["variant", *PLACE, "launches"]].assign(
        value=np.exp(group.mean), low=np.exp(group.mean - half), high=np.exp(group.mean + half)
    )
