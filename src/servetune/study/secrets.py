"""Secrets: a study and its records name a variable of the caller, and never hold its value."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from servetune.errors import UserError

SHORTEST = 8
"""Characters of a secret: what is shorter stands in a log for something else."""

# The partition key of InfiniBand (NCCL_IB_PKEY) and sizes per token are none.
_NAME = re.compile(
    r"(?:(?<!_PER_)TOKEN|(?<!_P)KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|_PWD|KEY_ID)$",
    re.IGNORECASE,
)
_HARMLESS = {"HF_HUB_DISABLE_IMPLICIT_TOKEN"}

_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}|gh[oprsu]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*)(?![A-Za-z0-9])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]+:[^/\s@]+@"
)
"""Tokens by their issuers' prefixes (Hugging Face, OpenAI, NVIDIA, GitHub, GitLab, Slack, AWS,
Google), JSON web tokens, bearer tokens, private keys, and passwords in addresses."""

KEY_OF_LAUNCH = "{key}"
"""Stands in a gateway's environment for the key that is made for each launch."""

_OWN = re.compile(r"SERVETUNE_.*|VLLM_API_KEY")
"""Variables that servetune sets for a server."""


def is_secret(variable: str) -> bool:
    """Tell whether a variable holds a secret, by its name: `HF_TOKEN`, `OPENAI_API_KEY`."""
    return variable not in _HARMLESS and _NAME.search(variable) is not None


def refuse_secrets(content: Any, file: Path) -> None:
    """Refuse secrets in what was read from a file, by the names of variables and by values.

    Raises:
        UserError: the first; the message does not hold it.
    """
    for place, variable in _secrets(content, ()):
        where = f"{file}: {'.'.join(place)}"
        if variable is None:
            raise UserError(
                f"{where}: looks like a secret, which would be recorded; leave it out, or name a"
                " variable of your shell in environment_from"
            )
        if _OWN.fullmatch(variable):
            raise UserError(f"{where}: cannot be set: servetune sets it for each launch")
        raise UserError(
            f"{where}: a secret would be recorded; set {variable} in your shell, and write"
            f" environment_from: [{variable}]"
        )


def check_named(variable: str) -> str:
    """Return a variable to take from the caller; raises ValueError if servetune sets it."""
    if _OWN.fullmatch(variable):
        raise ValueError("cannot be passed: servetune sets it for each launch")
    return variable


def _secrets(content: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str | None]]:
    """Yield the place of each secret, and its variable where the name tells."""
    if isinstance(content, dict):
        for key, value in content.items():
            here = (*place, str(key))
            variable = _variable(here)
            if value == KEY_OF_LAUNCH and "gateway" in place:
                continue
            if variable and (is_secret(variable) or _OWN.fullmatch(variable)):
                yield here, variable
            else:
                yield from _secrets(value, here)
    elif isinstance(content, list):
        for i, value in enumerate(content):
            yield from _secrets(value, (*place, str(i)))
    elif isinstance(content, str) and _VALUE.search(content):
        yield place, None


def _variable(place: tuple[str, ...]) -> str | None:
    """Return the variable that a key sets: one of an `environment`, or `environment.NAME`."""
    *_, parent, key = ("", *place)
    return key if parent == "environment" else key.partition("environment.")[2] or None


def secrets_of(passed: Iterable[str]) -> list[str]:
    """Return what no log tail and no record may hold: passed values, and the caller's secrets."""
    own = (value for name, value in os.environ.items() if is_secret(name))
    found = {value for value in (*passed, *own) if len(value) >= SHORTEST}
    return sorted(found, key=len, reverse=True)


def redacted(content: Any, secrets: Iterable[str]) -> Any:
    """Return JSON content with `***` in place of secrets, the longest first."""
    if isinstance(content, str):
        for secret in secrets:
            content = content.replace(secret, "***")
        return content
    if isinstance(content, list):
        return [redacted(each, secrets) for each in content]
    if isinstance(content, dict):
        return {key: redacted(value, secrets) for key, value in content.items()}
    return content
