"""Variables that a server gets from its caller: there before anything starts, written nowhere."""

import os
from collections.abc import Iterable

from servetune.errors import UserError
from servetune.plan.planned import Session
from servetune.study.secrets import SHORTEST


def from_caller(names: Iterable[str], key: str = "environment_from") -> dict[str, str]:
    """Return variables of this process by name; `key` is where the study names them.

    Raises:
        UserError: one is not set, or is too short to be a secret.
    """
    values = {name: os.environ.get(name, "") for name in names}
    if missing := [name for name, value in values.items() if not value]:
        raise UserError(
            f"{key}: {', '.join(missing)}: not set; export"
            f" {'it' if len(missing) == 1 else 'them'} in the shell that runs this"
        )
    for name, value in values.items():
        if len(value) < SHORTEST:
            raise UserError(
                f"{key}: {name}: its value has fewer than {SHORTEST} characters, so it"
                " cannot be kept out of logs; if it is no secret, write it under environment"
            )
    return values


def check_passed(sessions: Iterable[Session]) -> None:
    """Raise UserError, as `from_caller` does, where a session's target would lack a variable."""
    for session in sessions:
        from_caller(session.environment_from)
        secrets_of_endpoint(session)


def secrets_of_endpoint(session: Session) -> dict[str, str]:
    """Return the values of an endpoint's key and headers, by the keys that name their variables.

    Raises:
        UserError: as `from_caller`.
    """
    return {
        key: from_caller([name], f"endpoint.{key}")[name] for key, name in session.keys_from.items()
    }
