"""What is to be measured, what is, and what follows from it."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from servetune.cli.app import (
    MORE,
    ROOT,
    AsJson,
    PlanFile,
    StudyName,
    app,
    chosen_params,
    chosen_plan,
)
from servetune.errors import RUN, NothingMeasuredError, UserError
from servetune.files import write_text
from servetune.metrics import METRIC
from servetune.plan.make import make_plan, plan_to_measure
from servetune.progress import counted
from servetune.records.paths import recorded
from servetune.screen import draw
from servetune.terminal import echo


@app.command("plan")
def plan_command(study: StudyName = None, as_json: AsJson = False) -> None:
    """Check params.yaml and its study, and list what a run would measure and how long it takes."""
    from servetune.models.positions import short_drafts
    from servetune.plan.estimate import estimate
    from servetune.plan.listing import lines
    from servetune.plan.preparation import preparation
    from servetune.plan.times import recorded_times
    from servetune.sessions.hardware import missing_gpus

    plan = plan_to_measure(chosen_params(study), ROOT)
    times = recorded_times(plan.study, plan.hardware, ROOT)
    measured = recorded(plan.study, ROOT)
    estimated = estimate(plan, times, measured, preparation(plan, measured, ROOT))
    owing = {session.id for session in estimated.sessions if session.owed}
    missing = missing_gpus(session for session in plan.sessions if session.id in owing)
    warnings = [*estimated.warnings, *missing, *short_drafts(plan, ROOT)]
    estimated = estimated.model_copy(update={"warnings": warnings})
    if as_json:
        echo(estimated.model_dump_json(indent=1))
        return
    told = list(lines(estimated))
    if plan.tuning:
        from servetune.tables.rounds import outlook

        told += outlook(plan, times, ROOT)
    echo("\n".join(told))


@app.command()
def show(plan: PlanFile = None, study: StudyName = None) -> None:
    """Print the plan's results so far as a short table, and where the report is."""
    from servetune.analysis.wording import plural
    from servetune.report.reading import read_so_far
    from servetune.report.terminal import render_terminal
    from servetune.tables.freshness import notes_of, partial_digest, report_digest, stands

    the_plan = chosen_plan(plan, study)
    try:
        measured = read_so_far(the_plan, ROOT)
    except NothingMeasuredError as nothing:
        echo(nothing)
        return
    draw(render_terminal(measured))
    if measured.pending:
        echo(f"Not measured yet: {', '.join(counted(measured.pending))}")
    if stands(ROOT / "reports" / "summary.sha256", report_digest(the_plan, ROOT)):
        lacks = notes_of(ROOT / "reports" / "summary.sha256")
        but = f", but {plural(len(lacks), 'part')} could not be made, marked there" if lacks else ""
        echo(f"The report: reports/summary.html{but}")
    elif stands(ROOT / "reports" / "summary.sha256", partial_digest(the_plan, ROOT)):
        echo("The partial report: reports/summary.html")
    else:
        echo("No report of these yet; run: uv run servetune report --partial")


@app.command()
def status(plan: PlanFile = None, study: StudyName = None, as_json: AsJson = False) -> None:
    """Show progress: what is measured, running and waiting, and the estimated end."""
    from servetune.plan.times import recorded_times
    from servetune.running import read_running
    from servetune.status.state import state_of
    from servetune.status.view import render_state

    # A load may run beside this.
    os.nice(19)
    now = read_running(ROOT)
    runs = [Path(step.plan) for step in now[0] if step.plan]
    the_plan = chosen_plan(None if study else plan or next(reversed(runs), None), study)
    times = recorded_times(the_plan.study, the_plan.hardware, ROOT)
    state = state_of(the_plan, times, now, ROOT)
    if as_json:
        echo(state.model_dump_json(indent=1))
    else:
        draw(render_state(state))


@app.command()
def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="REVISION | FILE FILE...",
            help="A Git branch, tag or commit, a DVC experiment, or another project's folder; or"
            " result files of any tool, the baseline first. NAME=FILE, a name again for a launch"
            " more.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page too: both sides' load curves, and the tables."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="slower: exit with 1 if a regression is proven; stale: if the results are not"
            " those of params.yaml and the records; or both: slower,stale."
        ),
    ] = None,
    goodput: Annotated[
        list[str] | None,
        typer.Option(help="For result files: a limit in ms, such as ttft:200; may be repeated."),
    ] = None,
    study: StudyName = None,
) -> None:
    """Compare params.yaml's results with a revision's, or result files, as Markdown or a page."""
    reasons = fail_on.split(",") if fail_on else []
    if other := next((word for word in reasons if word not in ("slower", "stale")), None):
        raise UserError(f"--fail-on: {other}: expected slower, stale, or slower,stale")
    if len(sides) == 1 and "=" not in sides[0] and not Path(sides[0]).is_file():
        if goodput:
            raise UserError("--goodput: is of result files; a study declares an slo")
        markdown, slower, is_stale = _against_revision(sides[0], study, out, html)
    else:
        if study:
            raise UserError("--study: result files are of none; leave it out")
        if html:
            raise UserError("--html: is of revisions; of result files there is --out")
        if "stale" in reasons:
            raise UserError("--fail-on stale: result files have no records; leave it out")
        markdown, slower, is_stale = *_of_files(sides, goodput or []), False
    if out is None:
        echo(markdown.rstrip("\n"))
    else:
        write_text(out, markdown)
    if ("slower" in reasons and slower) or ("stale" in reasons and is_stale):
        raise SystemExit(1)


def _against_revision(
    revision: str, study: str | None, out: Path | None, html: Path | None
) -> tuple[str, int, bool]:
    """Return the comparison with a revision as Markdown, how many proven regressions it has, and
    whether the results are stale.

    Where it refuses, what it is to write says why, so that a pull request has the reason.
    """
    try:
        return _compared(revision, study, html)
    except UserError as error:
        if out is not None:
            from servetune.compare.markdown import render_refusal

            write_text(out, render_refusal(revision, str(error)))
        raise


def _compared(revision: str, study: str | None, html: Path | None) -> tuple[str, int, bool]:
    from servetune.compare.comparison import compare_sides
    from servetune.compare.markdown import render_comparison
    from servetune.compare.sides import revision_side, workspace_side
    from servetune.compare.stale import stale

    plan = make_plan(chosen_params(study), ROOT)
    old = stale(plan, ROOT, has_report=study is None)
    base = revision_side(revision, ROOT, study, plan.study)
    here = workspace_side(ROOT, study)
    if set(here.table["measurement"]) != {measurement.id for measurement in plan.measurements}:
        raise UserError(
            old[0]
            if old
            else f"results/{plan.study}: the tables do not belong to params.yaml; run: {RUN}"
        )
    found = compare_sides(base, here, plan.equivalence)
    if html:
        from servetune.compare.page import render_html

        write_text(html, render_html(found, plan, old))
        echo(f"Page: {html}", error=True)
    return render_comparison(found, old), found.count("slower"), bool(old)


def _of_files(words: list[str], goodput: list[str]) -> tuple[str, int]:
    from servetune.compare.files import compare_runs, files_of, parse_limits, read_sides
    from servetune.compare.files_markdown import render_files
    from servetune.study.study import EQUIVALENCE

    limits_ms = parse_limits(goodput)
    found = compare_runs(read_sides(files_of(words)), limits_ms, EQUIVALENCE)
    return render_files(found), found.count("slower")


@app.command(rich_help_panel=MORE)
def export(
    folder: Annotated[Path, typer.Argument(help="Where to write a file a load point and launch.")],
    form: Annotated[str, typer.Option("--as", help="llm-d: its benchmark report 0.2.")] = "llm-d",
    plan: PlanFile = None,
    study: StudyName = None,
) -> None:
    """Write the plan's valid measurements in the form of another tool."""
    from importlib.metadata import version

    from servetune.deploy.escaping import as_yaml
    from servetune.records.measurements import read_measurement
    from servetune.records.paths import record_path
    from servetune.report.reading import read_so_far
    from servetune.tables.llmd import benchmark_report

    if form != "llm-d":
        raise UserError(f"--as {form}: expected llm-d")
    the_plan = chosen_plan(plan, study)
    measured = read_so_far(the_plan, ROOT)
    rows = measured.points[measured.points["status"] == "ok"]
    for session, id in rows[["session", "measurement"]].itertuples(index=False):
        record = read_measurement(record_path(the_plan.study, id, ROOT))
        spec = the_plan.datasets[record.load.dataset].spec
        source: Any = "random" if spec.kind == "random" else "unknown"
        report = benchmark_report(record, measured.sessions[session], source, version("servetune"))
        write_text(folder / f"{id}.yaml", as_yaml(report))
    left = len(measured.points) - len(rows)
    echo(f"{folder}: {len(rows)} reports" + (f"; {left} without valid numbers" if left else ""))


@app.command(rich_help_panel=MORE)
def interference(study: StudyName = None) -> None:
    """Find out whether sessions beside each other, or prepared starts, measure alike on a host."""
    from servetune.cli.interference import find_out

    echo(find_out(make_plan(chosen_params(study), ROOT), ROOT))


@app.command()
def history(
    metric: Annotated[
        str,
        typer.Argument(
            help="The metric, such as ttft_p50_ms, capacity_rps or perplexity.",
            autocompletion=lambda: list(METRIC),
        ),
    ],
    study: StudyName = None,
    variant: Annotated[str | None, typer.Option(help="Show this variant only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a list of rows.")] = False,
) -> None:
    """Show a metric, a capacity or quality over the commits that measured it."""
    from servetune.report.history import terminal

    name = chosen_params(study)["study"]
    of_loads = metric in METRIC
    rows = (terminal.rows_of if of_loads else terminal.reviewed_of)(name, metric, variant, ROOT)
    render = terminal.render_history if of_loads else terminal.render_reviewed
    if as_json:
        echo(rows.to_json(orient="records", indent=1))
    else:
        draw(render(name, metric, rows))


@app.command(rich_help_panel=MORE)
def deploy(
    variant: str,
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="command, compose, systemd, deployment, kserve or llm-inference-service.",
        ),
    ] = "command",
    plan: PlanFile = None,
    study: StudyName = None,
) -> None:
    """Print a measured variant as a command, Compose file, systemd unit or Kubernetes manifest."""
    from servetune.deploy.formats import FORMS
    from servetune.deploy.served import served

    if form not in FORMS:
        raise UserError(f"--as {form}: expected one of {', '.join(FORMS)}")
    # Read by a program: each form escapes what it holds by its own rules.
    print(FORMS[form](served(chosen_plan(plan, study), variant, ROOT)), end="")  # noqa: T201
