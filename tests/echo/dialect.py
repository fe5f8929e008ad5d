"""The echo engine's dialect."""

import httpx
from servetune.engines.echo.inside_serve import KEY_VARIABLE

from servetune.engines.counters import Counters
from servetune.engines.dialect import Dialect
from servetune.records.sessions import ServerFacts
from servetune.study.families import FAMILIES

PROGRAM = ("-m", "servetune.engines.echo.inside_serve")


def read_page(page: str) -> Counters:
    """Read `echo_<figure> <value>` lines."""
    lines = (
        line.removeprefix("echo_").split() for line in page.splitlines() if line[:5] == "echo_"
    )
    return {name: float(value) for name, value in lines}


def scrape(client: httpx.Client) -> Counters:
    """Read a server's metrics now; raises httpx.HTTPError."""
    return read_page(client.get("/metrics").raise_for_status().text)


DIALECT = Dialect(
    family=next(family for family in FAMILIES if family.name == "echo"),
    command=("python", *PROGRAM),
    program=PROGRAM,
    placed=lambda host, port, name: ["--host", host, "--port", str(port), "--name", name],
    key_variable=KEY_VARIABLE,
    counters=scrape,
    page=read_page,
    figures=frozenset({"generation_tokens", "prompt_tokens"}),
    facts=lambda log, page, info, startup_s, version: ServerFacts(startup_s=startup_s),
    explain=lambda log, exit_code: log[-1] if log else None,
)
