"""Bundles: what is still to measure as one file, and its results."""

from pathlib import Path
from typing import Annotated, Any

import typer

from servetune.cli.app import MORE, ROOT, StudyName, app, chosen_params, studies
from servetune.errors import UNDONE_PARTS, UserError
from servetune.plan.make import plan_to_measure
from servetune.terminal import echo

bundle = typer.Typer(
    no_args_is_help=True, help="Measure on a host without network and without this project."
)
app.add_typer(bundle, name="bundle", rich_help_panel=MORE)


@bundle.command("export")
def export_command(
    out: Annotated[
        Path | None, typer.Option(help="Write to this file; by default bundles/<study>.pyz.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(help="key=value to override params.yaml; may be repeated.")
    ] = None,
    study: StudyName = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Print a Kubernetes Job that runs the bundle.")
    ] = False,
) -> None:
    """Pack the sessions that are still to measure into one file that Python runs."""
    from servetune.bundle.export import export_bundle
    from servetune.plan.pending import pending_of

    plan = plan_to_measure({**chosen_params(study), **_values(config or [])}, ROOT)
    path = out or Path("bundles", f"{plan.study}.pyz")
    manifest = export_bundle(plan, path, ROOT)
    owed = sum(pending_of(session, ROOT).count for session in manifest.sessions)
    size_mb = path.stat().st_size / 1e6
    rounds = ", and the rounds to come of its tuning" if manifest.is_tuned else ""
    counts = f"{len(manifest.sessions)} sessions, {owed} load points{rounds}"
    lines = [f"{path}: {counts}, {size_mb:.1f} MB"]
    names = [model.rsplit("-", 1)[0] for model in manifest.elsewhere]
    if kubernetes:
        from servetune.deploy.escaping import as_yaml
        from servetune.deploy.job import job

        lines += [f"copy it to the volume claim bundles, as {plan.study}.pyz"]
        lines += [f"put {name} into the folder {name} of the claim models" for name in names]
        echo("".join(f"# {line}\n" for line in lines) + as_yaml(job(manifest)).rstrip("\n"))
        return
    lines += [f"  on the host: --model {name}=PATH" for name in names]
    echo("\n".join(lines))


@bundle.command("import")
def import_command(results: list[Path]) -> None:
    """Import a bundle's results, as if they had been measured here.

    Of an archive that was cut short on its way all is taken that is whole; the exit code is then 3.
    """
    from servetune.bundle.planned_now import beside_plan
    from servetune.bundle.results import ASIDE, take_results

    is_broken = False
    for path in results:
        taken = take_results(path, ROOT, studies(), in_part=True)
        counts = taken.counts
        rounds = f", {counts['rounds']} rounds of a tuning" if counts["rounds"] else ""
        aside = f"; raw data that no record names is now in {ASIDE}" if counts["aside"] else ""
        completed = "; raw data that was missing is here now" if taken.completed else ""
        told = (
            f"{path}: {counts['measurements']} load points imported, {counts['already']} were here,"
            f" {counts['sessions']} sessions complete, {counts['owed']} load points still missing"
            f"{rounds}{completed}{aside}"
        )
        echo("\n  ".join([told, *beside_plan(taken, ROOT)]))
        if taken.lacks:
            echo(f"servetune: {taken.lacks}", error=True)
            is_broken = True
    if is_broken:
        raise SystemExit(UNDONE_PARTS)


def _values(pairs: list[str]) -> dict[str, Any]:
    """Read key=value pairs, the values as YAML."""
    from servetune.study.yaml import parse_yaml

    values = {}
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not is_pair:
            raise UserError(f"--config {pair}: expected key=value, such as max_num_seqs=64")
        values[key] = parse_yaml(value, f"--config {key}")
    return values
