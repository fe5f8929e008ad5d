"""What a bundle says of itself, and where things lie in it.

A bundle is a file that Python runs (`python3 STUDY.pyz`): `__main__.py`, which unpacks it and
starts `servetune.bundle.host`; `src/`, this package's code; and `project/`, a project's folder
with all that the sessions need: checkpoints, request datasets, and what was measured of them
before; of a tuning also what its rounds are chosen by. The results that a host gives back hold the
manifest too, and the `results` that it measured.
"""

from pathlib import Path
from typing import Literal

from servetune.files import read_model
from servetune.plan.planned import Plan, Session
from servetune.plan.sessions import Declared
from servetune.study.base import Frozen, Id
from servetune.study.models import ModelSource
from servetune.tables.elsewhere import Elsewhere

MANIFEST = "bundle.json"
TUNING = "tuning.json"


class BundledEngine(Frozen):
    """An engine to find on the measuring host, by the version of vLLM that it must hold."""

    vllm: str | None


class Manifest(Frozen):
    """The sessions that a bundle measures, and what it expects of the host.

    `elsewhere` names the models whose checkpoints are not in the bundle, with their source. A
    tuning adds sessions round by round; no server of it takes more than `gpus`.
    """

    format: Literal[1] = 1
    study: Id
    sessions: list[Session]
    engines: dict[Id, BundledEngine]
    elsewhere: dict[Id, ModelSource] = {}
    gpus: int = 0
    is_tuned: bool = False


class BundledTuning(Frozen):
    """What rounds of a tuning are chosen by, beside what was measured.

    `plan` is as it was exported. `declared` has a variant for each candidate.
    """

    plan: Plan
    declared: Declared
    elsewhere: list[Elsewhere]


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an unpacked bundle, or of the results of one."""
    return read_model(folder / MANIFEST, Manifest)
