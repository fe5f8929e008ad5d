"""What a prediction is worth: recorded loads that it was not fitted to, and recorded searches.

Run: uv run python benchmarks/prediction.py

It prints Markdown, in ten to twenty minutes on one core. Each variant is fitted to its lightest
recorded load and the heaviest that was not cut off; the others are asked. CHOSEN_ON names the
variants on which the model, its prior and its allowed errors were chosen: their errors are no test.
phi4-shape has one load a variant: there two variants are fitted, and others of the same kind asked.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from capacity_simulation import Spent, probe
from simulated_server import Twin

from servetune.capacity.search import Probed, next_step
from servetune.predict.batching import simulate
from servetune.predict.bounds import overhead_of_s
from servetune.predict.fit import Fitted, fit
from servetune.predict.judged import Error, error_of, median_error, score_fit
from servetune.predict.loads import Predicting
from servetune.predict.recorded import Recorded, launch_of, read_loads
from servetune.predict.server import Floats
from servetune.records.searches import SearchRecord, read_search
from servetune.study.capacity import Search, Slo
from servetune.study.study import Study, read_study

GALLERY = Path(__file__).parents[1] / "gallery"

CHOSEN_ON = {"h200-llama8b": ("bf16", "fp8", "eagle3-2.5"), "h200-capacity": ("bf16", "fp8")}
CLOSED = {
    **dict.fromkeys(("h200-capacity", "h200-capacity-slow-cpu"), "h200-llama8b"),
    "h200-headline": "h200-headline",
}
"""Whose closed loops are asked for a study's capacity: another's, or its own where it has some."""
SEARCHED = tuple(CLOSED)
STUDIES = (
    *("h200-llama8b", "h200-llama8b-varied", "h200-llama8b-graphs", "h200-granite", *SEARCHED),
    *("h100-front-end", "h100-detokenizing"),
)
SETTINGS_ASKED = (
    ("h200-granite", ("start",), "throttled"),
    ("phi4-shape", ("expt-1", "expt-4"), "expt-2"),
    ("phi4-shape", ("expt-1", "expt-4"), "expt-3"),
    ("phi4-shape", ("expt-5", "expt-8"), "expt-6"),
    ("phi4-shape", ("expt-5", "expt-8"), "expt-7"),
)
"""Study, variants that are fitted, and the variant with other settings that is asked."""

OF_THE_BAR = ("h200-llama8b", "h200-capacity", "h200-granite", "phi4-shape")
"""Studies whose errors, all together, are held against a bar."""

FIGURES = {"tpot_p50_ms": 0.05, "output_throughput_tok_s": 0.05, "ttft_p50_ms": 0.15}
HIGHEST_RPS = 200.0
SEEDS = 8
SEARCHES = 4

Loads = dict[str, list[Recorded]]


def main() -> None:
    """Print the tables."""
    studies = {name: read_study(name, GALLERY) for name in (*STUDIES, "phi4-shape")}
    loads = {name: read_loads(study, name, GALLERY) for name, study in studies.items()}
    fits, asked = print_loads(loads)
    for name, errors in print_settings(loads).items():
        asked.setdefault(name, []).extend(errors)
    print_all(asked)
    print_other_models(loads, fits)
    print_capacities(studies, loads, fits)
    print_arrivals(loads, fits)
    print_first_probes(studies, loads, fits)


def print_loads(
    loads: dict[str, Loads],
) -> tuple[dict[tuple[str, str], Fitted], dict[str, list[Error]]]:
    head("Loads that were not fitted", "study", "variant", "fitted to", "asked", *FIGURES)
    fits: dict[tuple[str, str], Fitted] = {}
    judged: dict[str, list[Error]] = {}
    for name in STUDIES:
        for variant, recorded in loads[name].items():
            if len(recorded) < 3:
                continue
            found = score_fit(recorded)
            fits[name, variant] = found.fitted
            marked = add_judged(judged, name, variant, found.errors)
            row(name, marked, ", ".join(found.of), len(found.errors), *medians(found.errors))
    print_judged(judged)
    return fits, judged


def print_settings(loads: dict[str, Loads]) -> dict[str, list[Error]]:
    head("Settings that were not fitted", "study", "fitted to", "asked", *FIGURES)
    errors: dict[str, list[Error]] = {}
    for name, fitted_to, asked in SETTINGS_ASKED:
        known = [load for variant in fitted_to for load in loads[name][variant]]
        fitted = fit([observed for _, observed in (known[0], known[-1])])
        error = error_of(fitted, loads[name][asked][0])
        errors.setdefault(name, []).append(error)
        row(name, ", ".join(fitted_to), asked, *signed(error))
    for name, found in errors.items():
        row(f"**{name}**", "median", len(found), *medians(found))
    return errors


def print_all(asked: dict[str, list[Error]]) -> None:
    """Print what was asked of each study, loads and settings, and of those of the bar together."""
    head("All that was asked", "study", "asked", *FIGURES)
    for name, errors in asked.items():
        row(name, len(errors), *medians(errors))
    errors = [error for name in OF_THE_BAR for error in asked[name]]
    row(f"**{', '.join(OF_THE_BAR)}**", len(errors), *medians(errors))
    row("bar", "", *(f"{100 * bar:g} %" for bar in FIGURES.values()))


def print_other_models(loads: dict[str, Loads], fits: dict[tuple[str, str], Fitted]) -> None:
    """Ask the fit of bf16 for other weights, KV caches and drafts, as a tuning does."""
    head("Models that were not fitted", "study", "fitted to", "asked", "loads", *FIGURES)
    judged: dict[str, list[Error]] = {}
    for name in (each for each, variant in fits if variant == "bf16"):
        base = own_overhead_s(name, loads[name]["bf16"][0])
        for variant, recorded in loads[name].items():
            if variant == "bf16":
                continue
            more_s = own_overhead_s(name, recorded[0]) - base
            fitted = fits[name, "bf16"]
            fitted = replace(fitted, overhead_s=fitted.overhead_s + more_s)
            errors = [error_of(fitted, load) for load in recorded]
            marked = add_judged(judged, name, variant, errors)
            row(name, "bf16", marked, len(errors), *medians(errors))
    print_judged(judged)


def add_judged(
    judged: dict[str, list[Error]], study: str, variant: str, errors: Sequence[Error]
) -> str:
    """Add a variant's errors to its study's, and return its name; marked if it was chosen on."""
    if variant in CHOSEN_ON.get(study, ()):
        return f"{variant}*"
    judged.setdefault(study, []).extend(errors)
    return variant


def print_judged(judged: dict[str, list[Error]]) -> None:
    for name, errors in judged.items():
        row(f"**{name}**", "median", "without *", len(errors), *medians(errors))


def own_overhead_s(study: str, load: Recorded) -> float:
    record, observed = load
    launch = launch_of(record, study, GALLERY)
    assert launch.model and launch.ceilings
    tokens = observed.scheduler.draft_tokens
    return overhead_of_s(launch.model, launch.draft, tokens, launch.ceilings.bandwidth_byte_s)


def print_capacities(
    studies: dict[str, Study], loads: dict[str, Loads], fits: dict[tuple[str, str], Fitted]
) -> None:
    """Hold what is predicted against what searches found, and against their first probes."""
    head(
        "Capacity, requests/s",
        *("study", "variant", "tier", "found", "interval", "two loads", "error"),
        *("closed loops", "first closed loop alone", "first probe as searched"),
    )
    errors = []
    closed = dict(fits)
    for name in CLOSED.keys() & CLOSED.values():
        for variant, recorded in loads[name].items():
            loops = [load for load in recorded if load[1].requests.due_s is None]
            closed[name, variant] = score_fit(loops).fitted
    for name in SEARCHED:
        for path in sorted((GALLERY / "results" / name / "searches").glob("*.json")):
            search = read_search(path)
            recorded = loads[name].get(search.variant, [])
            pilots = [o for r, o in recorded if r.measurement == search.measurements[0]]
            if not pilots:
                continue  # Of another launch than the one that was read.
            pilot = pilots[0]
            of_loads = {
                "two": Predicting(fits[name, search.variant], pilot),
                "closed": Predicting(closed[CLOSED[name], search.variant], pilot),
                "pilot": Predicting(fit([pilot]), pilot),
            }
            for tier, found in search.tiers.items():
                slo = slo_of(studies[name], search, tier)
                said = {of: p.capacity_rps(slo, HIGHEST_RPS) for of, p in of_loads.items()}
                is_known = found.upper is not None and found.capacity
                error = said["two"] / found.capacity - 1 if is_known and found.capacity else None
                if error is not None:
                    errors.append(abs(error))
                bounds = f"{found.lower:.1f} to {found.upper:.1f}" if found.upper else "or more"
                row(
                    *(name, search.variant, tier, f"{found.capacity:.1f}", bounds),
                    f"{said['two']:.1f}",
                    "" if error is None else f"{100 * error:+.0f} %",
                    *(f"{said['closed']:.1f}", f"{said['pilot']:.1f}"),
                    f"{search.predicted[tier]:.1f}",
                )
    print(f"\nMedian error: {100 * float(np.median(errors)):.0f} % of {len(errors)} (bar 15 %)")


def slo_of(study: Study, search: SearchRecord, tier: str) -> Slo:
    capacity = study.workloads[search.workload].capacity
    assert capacity is not None
    return capacity.slo[tier]


def print_arrivals(loads: dict[str, Loads], fits: dict[tuple[str, str], Fitted]) -> None:
    """Print what a probe's own arrivals, replayed, explain of its tail.

    A probe's surprise is the logarithm of its p99 over the mean of SEEDS other draws of arrivals,
    recorded or replayed. A launch's error of the model is the mean of its surprises, and left out.
    """
    head("What a probe's arrivals explain", "study", "figure", "probes", "share of variance")
    for name in SEARCHED:
        for figure in ("ttft_p99_ms", "tpot_p99_ms"):
            pairs: list[tuple[float, float]] = []
            for variant, recorded in loads[name].items():
                probes = [load for load in recorded if load[1].requests.due_s is not None]
                found = [surprises(fits[name, variant], load, figure) for load in probes]
                centre = np.mean(found, axis=0)
                pairs += [(a - centre[0], b - centre[1]) for a, b in found]
            seen, replayed = np.array(pairs).T
            row(name, figure, len(pairs), explained(seen, replayed, len(pairs) - len(loads[name])))


def explained(seen: Floats, replayed: Floats, free: int) -> str:
    """Return the squared correlation with its 95 % interval (Fisher 1921)."""
    found = float(np.corrcoef(seen, replayed)[0, 1])
    half = 1.96 / math.sqrt(free - 2)
    low, high = (math.tanh(math.atanh(found) + side * half) for side in (-1, 1))
    return f"{found**2:.2f} ({max(low, 0) ** 2:.2f} to {high**2:.2f})"


def surprises(fitted: Fitted, load: Recorded, figure: str) -> tuple[float, float]:
    observed = load[1]
    sent = observed.requests
    assert sent.due_s is not None
    server = fitted.server(observed.scheduler, observed.processes, observed.bounds)
    rate = len(sent.due_s) / sent.due_s[-1]
    others = []
    for seed in range(SEEDS):
        gaps = np.random.default_rng([1, seed]).exponential(1 / rate, len(sent.due_s))
        served = simulate(server, replace(sent, due_s=np.cumsum(gaps)))
        others.append(p99(served.ttft_ms if "ttft" in figure else served.tpot_ms, observed.counted))
    own = fitted.predict(observed)[figure]
    expected = float(np.mean(np.log(others)))
    return float(np.log(observed.figures[figure]) - expected), float(np.log(own) - expected)


def p99(latencies_ms: Floats, counted: int) -> float:
    return float(np.quantile(latencies_ms[:counted], 0.99))


def print_first_probes(
    studies: dict[str, Study], loads: dict[str, Loads], fits: dict[tuple[str, str], Fitted]
) -> None:
    """Search servers as fitted, from the first probe of today and from a predicted one.

    What is predicted is too high or too low by as much as it was for the recorded search.
    """
    head("First probes", "study", "variant", "first probe", "probes", "requests", "seconds")
    name, tier = "h200-capacity", "interactive"
    total: dict[str, list[Spent]] = {"today": [], "predicted": []}
    for path in sorted((GALLERY / "results" / name / "searches").glob("*.json")):
        search = read_search(path)
        slo = slo_of(studies[name], search, tier)
        pilot = next(
            o for r, o in loads[name][search.variant] if r.measurement == search.measurements[0]
        )
        truth = Predicting(fits[name, search.variant], pilot)
        server = Twin(truth.server, 512, 128)
        found = search.tiers[tier].capacity
        assert found is not None
        error = Predicting(fit([pilot]), pilot).capacity_rps(slo, HIGHEST_RPS) / found
        firsts = {
            "today": search.predicted[tier],
            "predicted": error * truth.capacity_rps(slo, HIGHEST_RPS),
        }
        for way, first in firsts.items():
            spent = [search_from(server, slo, first, seed) for seed in range(SEARCHES)]
            total[way] += spent
            row(name, search.variant, f"{way}: {first:.1f}", *costs(spent))
    for way, spent in total.items():
        row("", "all", way, *costs(spent))


def search_from(server: Twin, slo: Slo, first_rps: float, seed: int) -> Spent:
    settings = Search(slo={"tier": slo}, lowest=0.1, highest=1000)
    spent, history = Spent(), list[Probed]()
    while not isinstance(step := next_step(settings, {"tier": first_rps}, history), dict):
        history.append(probe(server, slo, step.load, settings, 1000 * seed + len(history), spent))
    return spent


def costs(spent: Sequence[Spent]) -> list[str]:
    sums = [(each.probes, each.requests, each.seconds) for each in spent]
    return [f"{mean:,.1f}" if mean < 100 else f"{mean:,.0f}" for mean in np.mean(sums, axis=0)]


def medians(errors: Sequence[Error]) -> list[str]:
    found = [median_error(errors, figure) for figure in FIGURES]
    return ["" if error is None else f"{100 * error:.1f} %" for error in found]


def signed(error: Error) -> list[str]:
    return [f"{100 * error.by_figure[figure]:+.1f} %" for figure in FIGURES]


def head(title: str, *cells: str) -> None:
    print(f"\n### {title}\n")
    row(*cells)
    row(*("---" for _ in cells))


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
