"""Keeping a project in order: what to measure again, what is broken, what nobody needs."""

from pathlib import Path
from typing import Annotated

import typer

from servetune.cli.app import ROOT, UPKEEP, StudyName, app, chosen_params
from servetune.errors import RUN, printable
from servetune.plan.project import check_project
from servetune.terminal import echo


@app.command(rich_help_panel=UPKEEP)
def retry(
    study: StudyName = None,
) -> None:
    """Forget a study's failed and invalid records, so that the next run measures them again."""
    from servetune.sessions.retry import forget

    counts = forget(chosen_params(study)["study"], ROOT)
    if not any(counts.values()):
        echo("no failed or invalid record: a run measures nothing again")
        return
    echo(f"{counts['failed']} failed and {counts['invalid']} invalid records forgotten; run:")
    echo(f"  {RUN}")


@app.command(rich_help_panel=UPKEEP)
def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Set broken files aside, and remove half-written ones.")
    ] = False,
) -> None:
    """Check every file that the project wrote: results, models, datasets, cache."""
    from servetune.doctor import examine

    check_project(ROOT)
    if not examine(ROOT, fix):
        raise SystemExit(1)


@app.command(rich_help_panel=UPKEEP)
def clean(
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them. Git keeps what was committed.")
    ] = False,
) -> None:
    """List results, models and datasets that no study on any branch refers to."""
    from servetune.clean import remove, size_of, unnamed
    from servetune.files import size

    lost, unread = unnamed(ROOT)
    for study, why in unread.items():
        echo(printable(f"{study}: kept, as what it names is not known: {why}"))
    folders: dict[Path, list[Path]] = {}
    for path in lost:
        folders.setdefault(path.parent, []).append(path)
    for folder, paths in folders.items():
        echo(f"{printable(str(folder))}: {len(paths)}, {size(sum(map(size_of, paths)))}")
    freed = size(sum(map(size_of, lost)))
    if yes:
        remove(lost)
        echo(f"{freed} freed; DVC's cache keeps its copies until: dvc gc --all-commits")
    else:
        echo(f"{freed} to free; run: uv run servetune clean --yes" if lost else "nothing to remove")


@app.command(rich_help_panel=UPKEEP)
def init(
    folder: Annotated[
        Path, typer.Argument(help="A new folder, or one without a project; this one if left out.")
    ] = Path(),
) -> None:
    """Make a project for your own studies, in Git and DVC."""
    from servetune.initial.make import make_project

    for note in make_project(folder):
        echo(printable(note))
    echo(f"{printable(str(folder))}: made; go on there with:")
    # With the lock of its environment, which the next command would write after the commit.
    echo("  uv lock && git add -A && git commit -m 'A study'")
    echo(f"  {RUN}")


@app.command(rich_help_panel=UPKEEP)
def upgrade(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")
    ] = False,
) -> None:
    """Upgrade this folder to the installed servetune, and say what that changes."""
    from servetune.initial.upgrade import upgrade_project

    for line in upgrade_project(ROOT, dry_run):
        echo(printable(line))
