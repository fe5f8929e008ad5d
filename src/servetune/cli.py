"""The `servetune` command: a subcommand per step, so that you can run each by hand."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from servetune.errors import UserError, line_of
from servetune.files import write_text
from servetune.lifetime.owners import end_left_behind, end_with_owners, ignore_stops
from servetune.metrics import METRIC
from servetune.plan.file import read_plan
from servetune.plan.make import make_plan, read_params
from servetune.plan.project import check_project
from servetune.progress import copy_to, counted, say
from servetune.records.paths import recorded
from servetune.running import running

ROOT = Path()
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", help="A plan file of the workflow; by default params.yaml decides."),
]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts: the same as JSON.")]


def _studies() -> list[str]:
    return sorted(path.stem for path in ROOT.glob("studies/*.yaml"))


class _OneLineErrors(TyperGroup):
    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except UserError as error:
            line: str | None = str(error)
        except OSError as error:
            if not (line := line_of(error)):
                raise
        print(f"servetune: {line}", file=sys.stderr)
        raise SystemExit(2)


app = typer.Typer(
    cls=_OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"servetune {version_of('servetune')}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    log: Annotated[
        Path | None, typer.Option(help="A file that holds what is printed on standard error, too.")
    ] = None,
) -> None:
    """Tune and benchmark vLLM as params.yaml and its study declare."""
    end_with_owners()
    context.call_on_close(ignore_stops)
    if log is not None:
        copy_to(log)


@app.command("plan")
def plan_command(as_json: AsJson = False) -> None:
    """Check params.yaml and its study, and list what a run would measure and how long it takes."""
    from servetune.plan.estimate import estimate
    from servetune.plan.listing import lines
    from servetune.plan.times import recorded_times

    plan = make_plan(read_params(ROOT), ROOT)
    estimated = estimate(
        plan, recorded_times(plan.study, plan.hardware, ROOT), recorded(plan.study, ROOT)
    )
    print(estimated.model_dump_json(indent=1) if as_json else "\n".join(lines(estimated)))


@app.command()
def engine(
    name: Annotated[
        str, typer.Argument(help="An environment of workflow/envs, a Python, or vllm==VERSION.")
    ],
    python: Annotated[
        Path | None, typer.Option(help="The Python on this host that has vllm==VERSION.")
    ] = None,
) -> None:
    """Install a pinned environment by name, or describe a Python on this host by its path."""
    from servetune.engines.environments import make_ready

    with running("engine", name.replace("/", "-"), ROOT, doing="installing"):
        print(make_ready(name, python, ROOT))


@app.command()
def model(id: str, plan: PlanFile = None) -> None:
    """Fetch, make or quantize one model of the plan into data/models."""
    from servetune.models.make import make_model

    with running("model", id, ROOT, doing="making"):
        make_model(_known(read_plan(plan, ROOT).models, id, "model"), ROOT)


@app.command()
def workload(id: str, plan: PlanFile = None) -> None:
    """Write one request dataset of the plan to data/workloads."""
    from servetune.workloads.datasets import write_dataset

    dataset = _known(read_plan(plan, ROOT).datasets, id, "dataset")
    write_dataset(dataset, ROOT / "data" / "workloads" / f"{id}.jsonl", ROOT)


@app.command()
def session(id: str, plan: PlanFile = None) -> None:
    """Serve one variant and measure every load point that is still missing."""
    from servetune.sessions.session import run_session

    end_left_behind()
    sessions = {session.id: session for session in read_plan(plan, ROOT).sessions}
    chosen = _known(sessions, id, "session")
    say(f"session {chosen.order + 1} of {len(sessions)}: {id}")
    run_session(chosen, ROOT, sessions=[*sessions.values()])


@app.command()
def tables(plan: PlanFile = None) -> None:
    """Turn the plan's records into tables and metrics.json."""
    from servetune.tables.freshness import STAMP, tables_digest, write_stamp
    from servetune.tables.write import write_tables

    the_plan = read_plan(plan, ROOT)
    results = ROOT / "results" / the_plan.study
    say(f"tables: {results}")
    write_tables(the_plan, results)
    write_stamp(results / STAMP, tables_digest(the_plan, ROOT))


@app.command()
def report(
    plan: PlanFile = None,
    out: Path = Path("reports"),
    partial: Annotated[
        bool, typer.Option("--partial", help="Of what is measured so far; the rest is pending.")
    ] = False,
) -> None:
    """Render summary.html and summary.md from the plan's tables, or from what there is so far.

    A part that cannot be made is marked in its place, and told; the exit code stays 0.
    """
    from servetune.report.html import render_html
    from servetune.report.markdown import render_markdown
    from servetune.report.measured import read_measured, read_partial
    from servetune.tables.freshness import check_tables, report_digest, write_stamp

    the_plan = read_plan(plan, ROOT)
    if not partial:
        check_tables(the_plan, ROOT)
    measured = (read_partial if partial else read_measured)(the_plan, ROOT)
    stamp = out / "summary.sha256"
    # Until the end, so that a report is never taken for that of another plan.
    stamp.unlink(missing_ok=True)
    say(f"report: {out / 'summary.html'}")
    write_text(out / "summary.html", render_html(measured))
    write_text(out / "summary.md", render_markdown(measured))
    for line in measured.lacks:
        print(f"servetune: {line}", file=sys.stderr)
    if partial:
        missing = ", ".join(counted(measured.pending))
        print(f"{out / 'summary.html'}: {f'without {missing}' if missing else 'complete'}")
    else:
        write_stamp(stamp, report_digest(the_plan, ROOT), measured.lacks)


@app.command()
def show(plan: PlanFile = None) -> None:
    """Print the plan's results so far as a short table, and where the report is."""
    from rich.console import Console

    from servetune.analysis.wording import plural
    from servetune.report.measured import read_measured, read_partial
    from servetune.report.terminal import render_terminal
    from servetune.tables.freshness import STAMP, notes_of, report_digest, stands, tables_digest

    the_plan = read_plan(plan, ROOT)
    if not recorded(the_plan.study, ROOT):
        print(f"{the_plan.study}: no results yet; run: snakemake --cores 1 reports/summary.html")
        return
    tables = ROOT / "results" / the_plan.study / STAMP
    is_whole = stands(tables, tables_digest(the_plan, ROOT))
    measured = (read_measured if is_whole else read_partial)(the_plan, ROOT)
    Console().print(render_terminal(measured))
    if measured.pending:
        print(f"Not measured yet: {', '.join(counted(measured.pending))}")
    if stands(ROOT / "reports" / "summary.sha256", report_digest(the_plan, ROOT)):
        lacks = notes_of(ROOT / "reports" / "summary.sha256")
        but = f", but {plural(len(lacks), 'part')} could not be made, marked there" if lacks else ""
        print(f"The report: reports/summary.html{but}")
    else:
        print("No report of these yet; run: servetune report --partial")


@app.command()
def status(plan: PlanFile = None, as_json: AsJson = False) -> None:
    """Say what is measured, what runs since when, what waits, and about when it ends."""
    import os

    from rich.console import Console

    from servetune.plan.times import recorded_times
    from servetune.running import read_running
    from servetune.status.state import state_of
    from servetune.status.words import render_state

    # A load may run beside this.
    os.nice(19)
    now = read_running(ROOT)
    runs = [Path(step.plan) for step in now[0] if step.plan]
    the_plan = read_plan(plan or next(reversed(runs), None), ROOT)
    times = recorded_times(the_plan.study, the_plan.hardware, ROOT)
    state = state_of(the_plan, times, now, ROOT)
    if as_json:
        print(state.model_dump_json(indent=1))
    else:
        Console().print(render_state(state))


@app.command()
def compare(
    revision: Annotated[str, typer.Argument(help="A Git branch, tag or commit.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="slower: exit with 1 if a regression is proven.")
    ] = None,
) -> None:
    """Compare the results of params.yaml with those of a Git revision, as Markdown."""
    from servetune.compare.comparison import compare_sides
    from servetune.compare.markdown import render_comparison
    from servetune.compare.sides import RUN, revision_side, workspace_side

    if fail_on not in (None, "slower"):
        raise UserError(f"--fail-on: {fail_on}: expected slower")
    plan = make_plan(read_params(ROOT), ROOT)
    base, here = revision_side(revision, ROOT), workspace_side(ROOT)
    if set(here.table["measurement"]) != {measurement.id for measurement in plan.measurements}:
        raise UserError(f"results/{plan.study}: the tables do not belong to params.yaml; {RUN}")
    found = compare_sides(base, here, plan.equivalence)
    markdown = render_comparison(found)
    if out is None:
        print(markdown, end="")
    else:
        write_text(out, markdown)
    if fail_on and found.count("slower"):
        raise SystemExit(1)


@app.command("alone-or-together")
def alone_or_together(study: str) -> None:
    """Find out by a study whether sessions on one host disturb each other, and keep the answer."""
    from servetune.report.together import find_out

    print(find_out(make_plan({**read_params(ROOT), "study": study}, ROOT), ROOT))


@app.command()
def history(
    metric: Annotated[
        str, typer.Argument(help="Such as ttft_p50_ms.", autocompletion=lambda: list(METRIC))
    ],
    study: Annotated[
        str | None, typer.Option(help="By default that of params.yaml.", autocompletion=_studies)
    ] = None,
    variant: Annotated[str | None, typer.Option(help="This variant only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of rows.")] = False,
) -> None:
    """Show a metric over the commits that measured it, and where it moved."""
    from rich.console import Console

    from servetune.report.history.terminal import render_history, rows_of

    name = study or read_params(ROOT)["study"]
    rows = rows_of(name, metric, variant, ROOT)
    if as_json:
        print(rows.to_json(orient="records", indent=1))
    else:
        Console().print(render_history(name, metric, rows))


@app.command()
def retry(
    study: Annotated[
        str | None,
        typer.Argument(help="By default that of params.yaml.", autocompletion=_studies),
    ] = None,
) -> None:
    """Forget a study's failed and invalid records, so that the next run measures them again."""
    from servetune.sessions.retry import forget

    counts = forget(study or read_params(ROOT)["study"], ROOT)
    print(
        f"{counts['failed']} failed and {counts['invalid']} invalid records forgotten;"
        " run: snakemake --cores 1 reports/summary.html"
    )


@app.command()
def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Set broken files aside and remove what is half-written.")
    ] = False,
) -> None:
    """Check every file that the project wrote: results, models, datasets, cache."""
    from servetune.doctor import examine

    check_project(ROOT)
    if not examine(ROOT, fix):
        raise SystemExit(1)


@app.command()
def deploy(
    variant: str,
    form: Annotated[
        str,
        typer.Option("--as", help="compose, systemd, deployment, kserve, llm-inference-service."),
    ] = "command",
    plan: PlanFile = None,
) -> None:
    """Print a variant as something to run, with what was measured of it."""
    from servetune.deploy.formats import FORMS
    from servetune.deploy.served import served

    if form not in FORMS:
        raise UserError(f"--as {form}: expected one of {', '.join(FORMS)}")
    print(FORMS[form](served(read_plan(plan, ROOT), variant, ROOT)), end="")


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Remove it. Git keeps what it had.")] = False,
) -> None:
    """List what no study of any branch names any more: results, raw data, models, datasets."""
    from servetune.clean import remove, size_of, unnamed
    from servetune.files import size

    lost, unread = unnamed(ROOT)
    for study, why in unread.items():
        print(f"{study}: kept, as what it names is not known: {why}")
    folders: dict[Path, list[Path]] = {}
    for path in lost:
        folders.setdefault(path.parent, []).append(path)
    for folder, paths in folders.items():
        print(f"{folder}: {len(paths)}, {size(sum(map(size_of, paths)))}")
    freed = size(sum(map(size_of, lost)))
    if yes:
        remove(lost)
        print(f"{freed} freed; DVC's cache keeps its copies until: dvc gc --all-commits")
    else:
        print(f"{freed} to free; run: servetune clean --yes" if lost else "nothing to remove")


bundle = typer.Typer(
    no_args_is_help=True, help="Measure on a host without network and without this project."
)
app.add_typer(bundle, name="bundle")


@bundle.command("export")
def export_command(
    out: Annotated[Path | None, typer.Option(help="By default bundles/<study>.pyz.")] = None,
    config: Annotated[
        list[str] | None, typer.Option(help="key=value to override params.yaml; may be repeated.")
    ] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Print a Job that runs it, as YAML.")
    ] = False,
) -> None:
    """Pack the sessions that are still to measure into one file that Python runs."""
    from servetune.bundle.export import export_bundle
    from servetune.sessions.owed import count_owed

    plan = make_plan({**read_params(ROOT), **_values(config or [])}, ROOT)
    path = out or Path("bundles", f"{plan.study}.pyz")
    manifest = export_bundle(plan, path, ROOT)
    owed = sum(count_owed(session, ROOT) for session in manifest.sessions)
    size_mb = path.stat().st_size / 1e6
    lines = [f"{path}: {len(manifest.sessions)} sessions, {owed} load points, {size_mb:.1f} MB"]
    names = [model.rsplit("-", 1)[0] for model in manifest.elsewhere]
    if kubernetes:
        from servetune.deploy.formats import as_yaml
        from servetune.deploy.job import job

        lines += [f"copy it to the volume claim bundles, as {plan.study}.pyz"]
        lines += [f"put {name} into the folder {name} of the claim models" for name in names]
        print("".join(f"# {line}\n" for line in lines) + as_yaml(job(manifest)), end="")
        return
    lines += [f"  on the host: --model {name}=PATH" for name in names]
    print("\n".join(lines))


@bundle.command("import")
def import_command(results: list[Path]) -> None:
    """Import a bundle's results, as if they had been measured here."""
    from servetune.bundle.results import take_results

    for path in results:
        taken = take_results(path, ROOT, _studies())
        print(
            f"{path}: {taken['measurements']} load points imported, {taken['already']} were here,"
            f" {taken['sessions']} sessions complete, {taken['owed']} load points still missing"
        )


def _values(pairs: list[str]) -> dict[str, Any]:
    """Read key=value pairs, the values as YAML."""
    from servetune.study.yaml import parse_yaml

    values = {}
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not is_pair:
            raise UserError(f"--config {pair}: expected key=value, such as study=mine")
        values[key] = parse_yaml(value, f"--config {key}")
    return values


def _known(content: dict[str, Any], id: str, what: str) -> Any:
    if id not in content:
        raise UserError(f"{id}: no such {what} in the plan; expected one of {', '.join(content)}")
    return content[id]


if __name__ == "__main__":
    app()
