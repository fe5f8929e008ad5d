"""The file by which a project's results depend on the servetune that is installed."""

from importlib.metadata import version as version_of
from pathlib import Path

import yaml

from servetune.errors import UserError
from servetune.files import write_text
from servetune.shipped import ENVS, SHIPPED, code_digest, digest_of

VERSION = "servetune.version"

_HEAD = "# Written by `servetune init` and `servetune upgrade`; DVC's stage depends on it.\n"


def installed() -> dict[str, str]:
    """Return what is installed: the version, and digests of its code, its locks and the schema."""
    return {
        "servetune": version_of("servetune"),
        "code": code_digest(),
        "schema of studies": digest_of(SHIPPED / "studies" / "study.schema.json"),
        **{f"engine {lock.stem}": digest_of(lock) for lock in sorted(ENVS.glob("*.txt"))},
    }


def write_version(root: Path) -> None:
    """Write down what is installed."""
    write_text(root / VERSION, _HEAD + yaml.safe_dump(installed(), sort_keys=False))


def changes(root: Path) -> list[str]:
    """Return in a line each what the installed servetune has that the project's file has not.

    Raises:
        UserError: no such file, or it is none that `init` wrote.
    """
    path = root / VERSION
    try:
        known = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file; expected a folder that `servetune init FOLDER` made"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        known = None
    if not isinstance(known, dict):
        raise UserError(f"{path}: expected `key: value` lines; remove it and run: servetune init .")
    now = installed()
    return [
        f"{name}: {known.get(name, 'none')} -> {now.get(name, 'none')}"
        for name in {**now, **known}
        if known.get(name) != now.get(name)
    ]


def check_version(root: Path) -> None:
    """Refuse to run another servetune than the project's file names, if it has one.

    DVC would take the results of one for those of the other.

    Raises:
        UserError: what to run.
    """
    if (root / VERSION).is_file() and (found := changes(root)):
        raise UserError(
            f"{VERSION}: another servetune is installed than this folder was made for"
            f" ({found[0]}); run: servetune upgrade"
        )
