"""What a server would do at loads and settings that were not measured."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servetune.cli.app import MORE, ROOT, StudyName, app, chosen_params
from servetune.errors import UserError, nearest
from servetune.study.base import MOST_CLIENTS
from servetune.terminal import echo

if TYPE_CHECKING:
    from servetune.predict.judged import Error
    from servetune.predict.loads import Predicting
    from servetune.records.sessions import Launch
    from servetune.study.capacity import Slo
    from servetune.study.study import Study

_KV_CACHE_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")

_MOST = {"--concurrency": MOST_CLIENTS.limit, "--rate": 10_000}
"""As many clients as a study may have; a higher rate than any server takes."""

_MOST_NAMED = 12
"""Variants in a message: more than one reads in a line."""

_COLUMNS = ("output_throughput_tok_s", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms")


@app.command(rich_help_panel=MORE)
def predict(
    study: StudyName = None,
    variant: Annotated[
        str | None, typer.Option(help="The variant to predict; by default the baseline.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="The variant whose recorded loads are fitted; by default the same one."
        ),
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Clients of closed loops, such as 32,64.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Requests per second of open loops, such as 5,10.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Another setting, such as max_num_seqs=64 or kv_cache_dtype=fp8; may be repeated.",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(
            help="Find the capacity: a preset, a tier, or ttft_p99_ms=500,tpot_p99_ms=30."
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option(min=1, help="Predict how many GPUs serve so many users.")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(help="Seconds between a user's requests; else each follows an answer."),
    ] = None,
) -> None:
    """Predict loads, settings, the capacity or the number of GPUs, from two recorded loads."""
    from servetune.analysis.wording import plural
    from servetune.models.loaded import served as served_by
    from servetune.models.shape import UncountedError
    from servetune.numbers import number
    from servetune.predict.declared import DeclaredOther, declared_other, errors_at, with_candidates
    from servetune.predict.judged import score_fit
    from servetune.predict.other import Launched, Other, served_as
    from servetune.predict.recorded import launch_of, read_loads
    from servetune.study.contradictions import contradiction, told
    from servetune.study.study import read_study

    name = chosen_params(study)["study"]
    declared = with_candidates(read_study(name, ROOT))
    chosen = variant or declared.baseline
    fitted_to = source or chosen
    for option, given in (("--variant", chosen), ("--from", fitted_to)):
        if given not in declared.variants:
            known = f"; expected one of {', '.join(list(declared.variants)[:_MOST_NAMED])}"
            close = nearest(given, declared.variants) or known
            raise UserError(f"{option} {given}: no such variant{close}")
    if every is not None and not 0 < every < math.inf:
        raise UserError(f"--every {every:g}: expected seconds above 0, such as 10")
    if users and not slo:
        raise UserError("--users: expected --slo, too, such as ttft_p99_ms=500,tpot_p99_ms=30")
    by_variant = read_loads(declared, name, ROOT)
    loads = by_variant.get(fitted_to, [])
    if len(loads) < 2:
        others = [each for each in by_variant if len(by_variant[each]) > 1]
        raise UserError(
            f"{name}: {fitted_to}: {plural(len(loads), 'recorded load')} to tell step times;"
            " expected two or more of one launch, of which the checkpoint and the device's"
            " ceilings are known"
            + (f", or --from another variant: {', '.join(others)}" if others else "")
        )
    asked = _settings(settings or [])
    limits = _slo(slo, declared) if slo else None
    rates, clients = _numbers(rate, "--rate"), _numbers(concurrency, "--concurrency")
    record, pattern = loads[-1]
    launch = launch_of(record, name, ROOT)
    own = served_by(launch)
    found = DeclaredOther(Other(own.model, own.draft, pattern.scheduler.accepted, {}), ())
    if fitted_to != chosen:
        found = declared_other(declared, name, chosen, (fitted_to, launch), by_variant, ROOT)
    arguments = {**found.other.arguments, **asked}
    served = {**_resolved(launch), **arguments}
    if asked and (rule := contradiction(served)):
        raise UserError(f"--set: {told(rule, served)}")
    judged = score_fit(loads)
    launched = Launched(launch, judged.fitted, pattern)
    errors, fits = judged.errors, f"{name}, {chosen}"
    try:
        predicting = served_as(launched, replace(found.other, arguments=arguments))
        if fitted_to != chosen:
            errors = errors_at(served_as(launched, found.other), by_variant.get(chosen, []))
            fits += f", by {fitted_to}"
    except UncountedError as error:
        raise UserError(f"{name}: {chosen}: cannot be predicted: {error}") from None
    echo(f"Predicted, not measured: {fits}, fitted to {' and '.join(judged.of)}")
    if found.unknown:
        echo(f"Taken to change nothing: {', '.join(found.unknown)}")
    try:
        if rates or clients:
            echo(_table(predicting, [int(n) for n in clients], rates))
        if limits and not users:
            highest = 4 * pattern.figures["output_throughput_tok_s"]
            highest /= float(pattern.requests.output_tokens.mean())
            capacity = predicting.capacity_rps(limits, highest)
            echo(f"Capacity within {slo}: {number(capacity)} requests/s (predicted)")
        if limits and users:
            echo(_gpus(predicting, limits, users, every))
    except ValueError as error:
        raise UserError(f"{name}: {chosen}: {error}") from None
    echo(_errors(chosen, errors))


def _resolved(launch: "Launch") -> dict[str, int | None]:
    """Return what a launch resolved of the arguments that vLLM may refuse together."""
    names = ("max_num_seqs", "max_num_batched_tokens", "max_model_len")
    return {name: getattr(launch.server, name) for name in names}


def _settings(given: list[str]) -> dict[str, int | str]:
    from servetune.predict.loads import SETTINGS

    asked: dict[str, int | str] = {}
    for word in given:
        key, _, value = word.partition("=")
        known = (*SETTINGS, "kv_cache_dtype")
        if key not in known:
            raise UserError(
                f"--set {word}: expected one of {', '.join(known)}{nearest(key, known)}"
            )
        if key == "kv_cache_dtype":
            if value not in _KV_CACHE_DTYPES:
                raise UserError(f"--set {word}: expected one of {', '.join(_KV_CACHE_DTYPES)}")
            asked[key] = value
        elif not value.isdecimal() or not int(value):
            raise UserError(f"--set {word}: expected a whole number above 0, such as {key}=64")
        else:
            asked[key] = int(value)
    return asked


def _slo(given: str, study: "Study") -> "Slo":
    from servetune.study.capacity import PRESETS, Slo
    from servetune.study.reading import validate

    searched = [workload.capacity for workload in study.workloads.values() if workload.capacity]
    tiers = {tier: slo for capacity in searched for tier, slo in capacity.slo.items()}
    if given in tiers:
        return tiers[given]
    if given in PRESETS:
        return Slo(**PRESETS[given])
    limits = {}
    for word in given.split(","):
        key, _, value = word.partition("=")
        try:
            limits[key] = float(value)
        except ValueError:
            known = ", ".join([*tiers, *PRESETS])
            raise UserError(
                f"--slo {given}: expected {known}, or limits such as ttft_p99_ms=500"
                f"{nearest(given, [*tiers, *PRESETS])}"
            ) from None
    return validate(Slo, limits, Path("--slo"))


def _numbers(given: str | None, option: str) -> list[float]:
    try:
        numbers = [float(word) for word in given.split(",")] if given else []
    except ValueError:
        numbers = [math.nan]
    most = _MOST[option]
    if not all(0 < number <= most for number in numbers):
        raise UserError(f"{option} {given}: expected numbers above 0, such as 8,32; up to {most:,}")
    if option == "--concurrency" and any(number % 1 for number in numbers):
        raise UserError(f"{option} {given}: expected whole numbers")
    return numbers


def _table(predicting: "Predicting", clients: list[int], rates: list[float]) -> str:
    from servetune.metrics import METRIC

    heads = "".join(f"{METRIC[name].column:>16}" for name in _COLUMNS)
    lines = [f"{'predicted':<18}{heads}"]
    rows = [(f"{number} clients", predicting.closed(number)) for number in clients]
    rows += [(f"{number:g} requests/s", predicting.open(number)) for number in rates]
    for load, figures in rows:
        lines.append(f"{load:<18}" + "".join(f"{figures[name]:>16.4g}" for name in _COLUMNS))
    return "\n".join(lines)


def _gpus(predicting: "Predicting", slo: "Slo", users: int, every: float | None) -> str:
    from servetune.analysis.wording import plural
    from servetune.numbers import number

    devices = predicting.pattern.devices
    if every:
        rate = users / every
        served = predicting.capacity_rps(slo, rate)
        need, each = rate / served if served else None, f"{number(served)} requests/s"
    else:
        most = predicting.most_users(slo, users)
        need, each = users / most if most else None, f"{most} users"
    if need is None:
        return "No number of GPUs serves one user within the SLO (predicted)"
    gpus = math.ceil(need - 1e-9) * devices
    of = plural(devices, "GPU")
    return f"{plural(gpus, 'GPU')} for {users:,} users (predicted): {each} on each server of {of}"


def _errors(variant: str, found: "Sequence[Error]") -> str:
    from servetune.analysis.wording import plural
    from servetune.metrics import METRIC
    from servetune.predict.judged import JUDGED, median_error

    errors = {figure: median_error(found, figure) for figure in JUDGED}
    told = [
        f"{METRIC[name].title} {100 * error:.1f} %"
        for name, error in errors.items()
        if error is not None
    ]
    if not told:
        return f"Error not known: nothing else was measured of {variant}"
    loads = plural(len(found), "load")
    return f"Median error at {loads} of {variant} not fitted: {', '.join(told)}"
