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
from servetune.plan.planned import Session
from servetune.study.base import Frozen, Id
from servetune.study.models import ModelSource

MANIFEST = "bundle.json"

GATEWAY = "gateway"
"""The folder of a bundled project with the packages of its gateways, for the host's Python."""


class BundledEngine(Frozen):
    """An engine to find on the measuring host: the versions of vLLM and packages it must hold."""

    vllm: str | None
    packages: dict[str, str] = {}


class BundledGateway(Frozen):
    """A gateway whose packages are in the bundle, and its version."""

    kind: str
    version: str


class Manifest(Frozen):
    """The sessions that a bundle measures, and what it expects of the host.

    `elsewhere` names the models whose checkpoints are not in the bundle, with their source. A
    tuning adds sessions round by round; no server of it takes more than `gpus`.
    `environment_from` names the variables that servers get from whoever runs it there.
    """

    format: Literal[1] = 1
    study: Id
    sessions: list[Session]
    engines: dict[Id, BundledEngine]
    gateways: dict[Id, BundledGateway] = {}
    elsewhere: dict[Id, ModelSource] = {}
    gpus: int = 0
    environment_from: list[str] = []
    is_tuned: bool = False


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an unpacked bundle, or of the results of one."""
    return read_model(folder / MANIFEST, Manifest)
