"""`servetune from`: what people have, as a study."""

from pathlib import Path
from typing import Annotated

import typer

from servetune.cli.app import ROOT, app
from servetune.errors import UserError
from servetune.files import write_text
from servetune.terminal import echo


@app.command("from")
def from_command(
    source: Annotated[
        str,
        typer.Argument(
            help="A command in quotes (vllm serve, docker run, vllm bench serve), or a file: shell,"
            " --config YAML, compose, KServe, serving-tests.json."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the study; by default the model's.")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(help="The hardware, such as cpu or nvidia-h200.")
    ] = None,
    vllm: Annotated[str | None, typer.Option(help="The version of vLLM.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file; by default studies/NAME.yaml.")
    ] = None,
) -> None:
    """Write a study from a command, a container or a manifest that you have."""
    from servetune.commands.files import source_of
    from servetune.commands.study import study_from

    written = study_from(source_of(source), name, hardware, vllm, ROOT)
    path = out or ROOT / "studies" / f"{written.name}.yaml"
    if path.exists() and path.read_text(encoding="utf-8") != written.text:
        raise UserError(f"{path}: is there already; give --name or --out, or remove it")
    write_text(path, written.text)
    for note in written.notes:
        echo(f"- {note}")
    echo(f"{path}: set study: {path.stem} in params.yaml, then run: uv run servetune plan")
