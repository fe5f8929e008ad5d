"""llama.cpp's dialect."""

from collections.abc import Mapping
from typing import Any

import httpx

from servetune.engines.dialect import Dialect, Tiers
from servetune.engines.llama_cpp.causes import explain
from servetune.engines.llama_cpp.facts import read_facts
from servetune.engines.llama_cpp.inside_serve import KEY_VARIABLE
from servetune.engines.llama_cpp.metrics import FIGURES, read_metrics, scrape
from servetune.study.families import FAMILIES

PROGRAM = ("-m", "servetune.engines.llama_cpp.inside_serve")


def placed(host: str, port: int, name: str) -> list[str]:
    """Return the last words of the command, so that none before them can take their place."""
    return ["--host", host, "--port", str(port), "--alias", name]


def reset(client: httpx.Client, has_tiers: bool) -> bool:
    """Empty each slot of the prompt that it holds; what is kept in memory beside them stays."""
    slots = client.get("/slots").raise_for_status().json()
    for slot in slots:
        answer = client.post(f"/slots/{slot['id']}", params={"action": "erase"}, json={})
        if not answer.is_success:
            return False
    return True


def info(client: httpx.Client) -> dict[str, Any]:
    """Return what the server tells of itself (/props)."""
    told = client.get("/props").raise_for_status().json()
    return told if isinstance(told, dict) else {}


def version(client: httpx.Client) -> str | None:
    """Ask a server for its build; None of one that does not tell."""
    answer = client.get("/props")
    told = answer.json().get("build_info") if answer.is_success else None
    return str(told) if told else None


def tiers(info: Mapping[str, Any], server: Mapping[str, Any]) -> Tiers:
    """Name the prompts that it keeps in memory when a slot takes another one; none with 0 MiB."""
    kept = () if server.get("cache_ram_mib") == 0 else ("cache_ram_mib",)
    return Tiers(kept, kept)


DIALECT = Dialect(
    family=next(family for family in FAMILIES if family.name == "llama-cpp"),
    command=("python", *PROGRAM),
    program=PROGRAM,
    placed=placed,
    key_variable=KEY_VARIABLE,
    keeps_connections=False,
    counters=scrape,
    page=read_metrics,
    version=version,
    figures=frozenset(FIGURES),
    reset=reset,
    info=info,
    facts=read_facts,
    explain=explain,
    tiers=tiers,
)
