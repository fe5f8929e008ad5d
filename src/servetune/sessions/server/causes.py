"""Why a server ended, from its log."""

import re

_NO_ERROR = re.compile(r"\b(?:INFO|WARNING) \d\d-\d\d ")
_CONSEQUENCE = re.compile(
    r"Engine core initialization failed|EngineDeadError|Engine core process \S+ died unexpectedly"
)
_ASSERTED = re.compile(r"Assertion `(.*)` failed")
_PYDANTIC = re.compile(r"Value error, (.*?)(?: \[type=.*)?$")
_ERROR = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception): .*)$")


def explain(log: list[str]) -> str | None:
    """Return the error that ended a server, from its log: the root cause if there is one."""
    told = [line for line in log if not _NO_ERROR.search(line)]
    errors = [match.group(1) for line in told if (match := _ERROR.search(line))]
    # pydantic puts what is wrong on a line of its own, below the name of its error.
    errors += [match.group(1) for line in told if (match := _PYDANTIC.search(line))]
    causes = [error for error in errors if not _CONSEQUENCE.search(error)]
    # Wrappers re-raise the first error in other words; later ones are often its consequence.
    cause = (causes or errors or [None])[-1]
    asserted = next((match.group(1) for line in told if (match := _ASSERTED.search(line))), None)
    return f"{cause} ({asserted})" if cause and asserted and "assert" in cause else cause
