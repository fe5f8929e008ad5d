"""The `servetune` command itself: what its subcommands share, and how it ends."""

from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from servetune.errors import UserError, line_of
from servetune.lifetime.owners import end_with_owners, ignore_stops
from servetune.plan.file import read_plan
from servetune.plan.make import make_plan, read_params
from servetune.plan.planned import Plan
from servetune.progress import copy_to
from servetune.terminal import echo

ROOT = Path()
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan", help="A plan file of the workflow; by default the plan follows from params.yaml."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

MORE, STEPS, UPKEEP = "More", "Steps, which the workflow runs", "Upkeep"
"""Panels of the help, below that of every day."""


def studies() -> list[str]:
    """List the studies of the project."""
    return sorted(path.stem for path in ROOT.glob("studies/*.yaml"))


StudyName = Annotated[
    str | None,
    typer.Option(
        "--study", help="The study; by default that of params.yaml.", autocompletion=studies
    ),
]


def chosen_params(study: str | None) -> dict[str, Any]:
    """Read params.yaml, for another study if one is named."""
    return read_params(ROOT) | ({"study": study} if study else {})


def chosen_plan(plan: Path | None, study: str | None) -> Plan:
    """Read a plan file, or plan the study of params.yaml or another one; raises UserError."""
    if plan and study:
        raise UserError("--study: the plan of --plan has its own; leave one of them out")
    return make_plan(chosen_params(study), ROOT) if study else read_plan(plan, ROOT)


class _OneLineErrors(TyperGroup):
    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except UserError as error:
            line: str | None = str(error)
        except OSError as error:
            if not (line := line_of(error)):
                raise
        echo(f"servetune: {line}", error=True)
        raise SystemExit(2)


app = typer.Typer(
    cls=_OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        echo(f"servetune {version_of('servetune')}")
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
        Path | None, typer.Option(help="Also write standard error to this file.")
    ] = None,
) -> None:
    """Tune and benchmark vLLM as params.yaml and its study declare."""
    end_with_owners()
    context.call_on_close(ignore_stops)
    if log is not None:
        copy_to(log)
