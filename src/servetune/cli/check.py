"""`servetune check`: what answers at an address, and how many clients it serves."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from servetune.cli.app import ROOT, AsJson, app
from servetune.errors import UserError
from servetune.files import write_text
from servetune.progress import say
from servetune.terminal import echo

if TYPE_CHECKING:
    from servetune.check.run import Check

INTERRUPTED = 130
"""What a shell takes for Ctrl-C."""


@app.command("check")
def check_command(
    url: Annotated[str, typer.Argument(help="Of its OpenAI API, such as https://HOST/v1.")],
    model: Annotated[
        str | None, typer.Option(help="As requests name it; by default the only one it lists.")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="The variable that holds its key.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE, whose value is sent; any number.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Certificates (PEM) that its own is checked with.")
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option(help="Addresses of metrics; by default HOST/metrics.")
    ] = None,
    ttft: Annotated[float, typer.Option(help="Target: time to first token, ms.")] = 1000.0,
    tpot: Annotated[float, typer.Option(help="Target: time per output token, ms.")] = 50.0,
    share: Annotated[float, typer.Option(help="Of the requests within both.")] = 0.9,
    requests: Annotated[int, typer.Option(help="The most that is sent.")] = 200,
    seconds: Annotated[float, typer.Option(help="The most load.")] = 60.0,
    highest: Annotated[int, typer.Option(help="The most clients.")] = 256,
    words: Annotated[int, typer.Option(help="Of each prompt.")] = 150,
    tokens: Annotated[int, typer.Option(help="Of each answer.")] = 64,
    hardware: Annotated[str, typer.Option(help="For the study, as you know it.")] = "elsewhere",
    out: Annotated[Path | None, typer.Option(help="Of the study that it writes.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what answers at a URL, how fast, how many clients it serves, and at how many it breaks.

    Sends at most 200 requests and a minute of load. Ctrl-C keeps what was found.
    """
    from servetune.check.asked import Asked, Targets
    from servetune.check.run import Checker
    from servetune.check.view import answer, head, table_of
    from servetune.check.view import as_json as json_of

    asked = Asked(
        url=_address(url),
        model=model,
        key_env=_variable(key_env),
        headers_env=dict(map(_header, header or [])),
        ca=ca,
        metrics=[*(metrics or [])],
        targets=Targets(_positive("--ttft", ttft), _positive("--tpot", tpot), _share(share)),
        requests=int(_positive("--requests", requests)),
        seconds=_positive("--seconds", seconds),
        highest=int(_positive("--highest", highest)),
        input_words=int(_positive("--words", words)),
        output_tokens=int(_positive("--tokens", tokens)),
        hardware=hardware,
    )
    with TemporaryDirectory(prefix="servetune-check-") as folder:
        checker = Checker(asked, Path(folder))
        check, is_interrupted = checker.check, False
        try:
            if not as_json:
                echo("\n".join(head(check)))
            checker.run()
        except (KeyboardInterrupt, SystemExit):
            check.ended, is_interrupted = "by Ctrl-C", True
            say("interrupted: what was found so far")
        finally:
            checker.close()
    if as_json:
        echo(json_of(check))
    else:
        if check.levels:
            echo("\n".join(["", *table_of(check), ""]))
        echo("\n".join(answer(check)))
    if check.levels:
        _write(check, out)
    if is_interrupted:
        raise SystemExit(INTERRUPTED)


def _write(check: "Check", out: Path | None) -> None:
    from servetune.check.study import name_of, study_of

    is_project = (ROOT / "params.yaml").is_file()
    name = name_of(check)
    path = out or (ROOT / "studies" if is_project else ROOT) / f"{name}.yaml"
    number = 2
    while out is None and path.exists():
        path = path.with_name(f"{name}-{number}.yaml")
        number += 1
    write_text(path, study_of(check))
    where = "" if is_project else " in a folder of servetune init, below studies/"
    say(f"{path}: the loads as a study; plan it{where}: servetune plan --study {path.stem}")


def _address(url: str) -> str:
    from servetune.study.targets import API, api_address

    given = url.rstrip("/")
    try:
        return api_address(given if given.endswith(API) else f"{given}{API}")
    except ValueError as error:
        raise UserError(f"URL: {error}") from None


def _variable(name: str | None) -> str | None:
    if name is not None and not name.isidentifier():
        # It may be the key itself, which no message holds.
        raise UserError("--key-env: expected the name of the variable that holds the key")
    return name


def _header(word: str) -> tuple[str, str]:
    name, _, variable = word.partition("=")
    if not name or not variable.isidentifier():
        raise UserError("--header: expected NAME=VARIABLE, the name of one that holds the value")
    return name, variable


def _positive(option: str, value: float) -> float:
    if not 0 < value <= 1e9:
        raise UserError(f"{option}: {value:g}: expected a number above 0")
    return value


def _share(value: float) -> float:
    if not 0.5 <= value < 1:
        raise UserError(f"--share: {value:g}: expected 0.5 or more, and below 1")
    return value
