"""How much recorded launches vary, and the prior of a moderated variance that is fitted to them.

`moderated_variance.py` judges what is made of it, and says how. The prior is that of Smyth (Linear
models and empirical Bayes methods, SAGMB 3, 2004, sec. 6.2), of each metric and kind of hardware.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, special

from servetune.analysis.differences import Floats
from servetune.analysis.launches import PLACE, launch_values

RESULTS = Path(__file__).parent.parent / "gallery" / "results"
METRICS = ("ttft_p50_ms", "tpot_p50_ms", "output_throughput_tok_s")
CELL = ["study", "variant", *PLACE]

LIKE_INFINITE = 200.0
"""Degrees of freedom of a prior whose variances differ no more than by chance."""


@dataclass(frozen=True)
class Prior:
    """What is known of the variance of log values, by metric: its scale, and degrees of freedom."""

    variance: Floats
    degrees: Floats


def recorded() -> pd.DataFrame:
    """Read all launches of cells with at least three, those in lockstep left out."""
    nothing = pd.DataFrame(columns=["measurement", "latency", "probability", "value_ms"])
    parts = []
    for path in sorted(RESULTS.glob("*/load_points.csv")):
        values = launch_values(pd.read_csv(path, low_memory=False), nothing, METRICS)
        session = min((path.parent / "sessions").glob("*.json"))
        hardware = json.loads(session.read_text(encoding="utf-8"))["hardware"]
        parts.append(values.assign(study=path.parent.name, hardware=hardware))
    values = pd.concat([part for part in parts if len(part)], ignore_index=True)
    values["device"] = values["device"].fillna("").astype(str)
    values = values[~values["in_lockstep"].astype(bool)]
    return values.groupby(CELL).filter(lambda launches: len(launches) >= 3)


def cells_of(values: pd.DataFrame) -> pd.DataFrame:
    """Reduce launches to one row a cell: its variance within a GPU, and degrees of freedom."""
    residual = values["log_value"] - values.groupby([*CELL, "device"])["log_value"].transform(
        "mean"
    )
    by = values.assign(square=residual**2).groupby(["hardware", *CELL])
    cells = by.agg(
        square=("square", "sum"), launches=("square", "size"), devices=("device", "nunique")
    ).reset_index()
    cells["degrees"] = (cells["launches"] - cells["devices"]).astype(float)
    cells = cells[cells["degrees"] > 0]
    return cells.assign(variance=cells["square"] / cells["degrees"])


def log_variances(variance: Floats, degrees: Floats) -> Floats:
    """Return logarithms without the bias of few degrees; limma's bound keeps ties finite."""
    known, half = np.maximum(variance, 1e-5 * np.median(variance)), degrees / 2
    return np.asarray(np.log(known) - special.digamma(half) + np.log(half))


def fit_one(variance: Floats, degrees: Floats) -> tuple[float, float]:
    """Fit the scale and the degrees of freedom of a prior by two moments (limma's fitFDist)."""
    logs = log_variances(variance, degrees)
    beyond = float(np.var(logs, ddof=1) - np.mean(special.polygamma(1, degrees / 2)))
    half = LIKE_INFINITE / 2
    if beyond > special.polygamma(1, half):
        half = optimize.brentq(lambda x: special.polygamma(1, x) - beyond, 1e-3, half)
    return float(np.exp(np.mean(logs) + special.digamma(half) - np.log(half))), 2 * half


def fit(cells: pd.DataFrame) -> Prior:
    """Fit the prior of each metric: they differ by far more than what is pooled would gain."""
    of = [cells[cells["metric"] == metric] for metric in METRICS]
    fits = [fit_one(c["variance"].to_numpy(), c["degrees"].to_numpy()) for c in of]
    return Prior(np.array([v for v, _ in fits]), np.array([d for _, d in fits]))


def held_out(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, Prior]]:
    """Give each study its cells, and the prior of the others of its hardware, if there are any."""
    for (hardware, study), own in cells.groupby(["hardware", "study"]):
        others = cells[(cells["hardware"] == str(hardware)) & (cells["study"] != str(study))]
        if len(own) >= 6 and others["study"].nunique() > 1:
            yield str(study), own, fit(others)


def print_fit(cells: pd.DataFrame) -> None:
    print(
        "Held-out studies: launches vary by (median), the prior expects (degrees of freedom), and"
    )
    print("how many of their variances lie in the lowest and the highest 5 % of what it expects")
    print(f"{'study':22}" + "".join(f"{metric.split('_')[0]:>22}" for metric in METRICS))
    for study, own, prior in held_out(cells):
        columns, outside = "", np.zeros(2, int)
        for metric, name in enumerate(METRICS):
            of = own[own["metric"] == name]
            scale, degrees = prior.variance[metric], prior.degrees[metric]
            at = special.fdtr(of["degrees"], degrees, of["variance"] / scale)
            outside += [(at < 0.05).sum(), (at > 0.95).sum()]
            median = f"{math.sqrt(of['variance'].median()):8.2%}" if len(of) else f"{'-':>8}"
            columns += f"{median} {math.sqrt(scale):6.2%} ({degrees:4.1f})"
        print(f"{study:22}{columns}   {outside[0]} and {outside[1]} of {len(own)}")
    print("Do the variances of a study belong together? p-value of an analysis of variance of logs")
    for (hardware, judged), of in cells.groupby(["hardware", "metric"]):
        logs = pd.Series(log_variances(of["variance"].to_numpy(), of["degrees"].to_numpy()))
        by, studies = logs.groupby(of["study"].to_numpy()), of["study"].nunique()
        if studies > 1:
            within = ((logs - by.transform("mean")) ** 2).sum()
            between = ((logs - logs.mean()) ** 2).sum() - within
            down = len(logs) - studies
            value = special.fdtrc(studies - 1, down, between / (studies - 1) / (within / down))
            print(
                f"  {hardware:24}{judged:26}{studies:3} studies, {len(logs):3} cells: {value:.2g}"
            )
    print()
