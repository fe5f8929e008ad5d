"""Whether a command is given where the project is."""

import os
import shlex
from pathlib import Path

from servetune.errors import UserError

_OWN = Path(__file__).absolute().parents[3]
"""The clone that this code stands in, unless it was installed without one."""


def check_project(root: Path) -> None:
    """Raise a UserError that says where to go unless `root` is a project's folder."""
    here = root.absolute()
    # One of the two may be lost here: that is another mistake than to be elsewhere.
    if any(_files(here)):
        return
    found = next((each for each in [*here.parents, _OWN] if all(_files(each))), None)
    where = f"run: cd {shlex.quote(str(found))}" if found else "make one: servetune init FOLDER"
    raise UserError(f"{here}: no project, as it has neither Snakefile nor params.yaml; {where}")


def _files(folder: Path) -> tuple[bool, bool]:
    return os.path.lexists(folder / "params.yaml"), (folder / "Snakefile").is_file()
