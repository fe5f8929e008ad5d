"""What decides a number, and so the name of what was made or measured.

A digest covers content alone: neither names inside a study nor paths on a host.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from servetune.corpus import CORPUS_VERSION
from servetune.engines.environments import lock_file
from servetune.files import sha256
from servetune.records.loads import PlannedTraffic
from servetune.study.base import Frozen, Neighbours
from servetune.study.datasets import Dataset, FromFile
from servetune.study.engines import ServerArguments
from servetune.study.models import FILES, PARENTS, LocalPath, Made, ModelSource

PROTOCOL = 2
"""Raised by hand when the way of measuring changes, so that old numbers are not reused."""

LATER = (
    *("environment_from", "neighbours", "adapters", "endpoint", "replicas", "gateway"),
    *("results", "kv_events", "roles"),
)
"""Keys that studies have had since others were measured."""

QUALITY_PROTOCOL = 1
"""Raised by hand when the way of scoring a corpus changes, so that old scores are not reused."""

QUESTIONS_PROTOCOL = 1
"""Raised by hand when the way of asking questions, or of judging answers, changes."""

MODEL_RECIPES = {"tiny": 2, "eagle3": 2}
"""Raised by hand when a model of a source is made differently from the same declaration."""

DATASET_RECIPES = 2
"""Raised by hand when a dataset is made differently from the same declaration."""


def digest(content: Any) -> str:
    """Return 12 hex digits that identify JSON content, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def digest_of(id: str) -> str:
    """Return the digest in which an id ends."""
    return id.rsplit("-", 1)[1]


class Serving(Frozen):
    """All that decides how a variant is served; engine and models by their digests.

    An endpoint stands in place of both. `replicas` is None of one server. With `kv_events` each
    publishes the blocks that it caches.
    """

    server: ServerArguments
    speculative: dict[str, Any] | None
    environment: dict[str, str]
    environment_from: list[str] = []
    engine: str | None
    model: str | None
    draft: str | None
    adapters: dict[str, str] = {}
    repeat: int
    hardware: str
    neighbours: Neighbours | None = None
    endpoint: dict[str, str] | None = None
    replicas: int | None = None
    gateway: dict[str, Any] | None = None
    kv_events: bool = False
    roles: dict[str, Any] = {}
    results: str | None = None

    @model_serializer(mode="wrap")
    def _without_default(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what came later and is not declared, so that it changes no identity."""
        content: dict[str, Any] = dump(self)
        return {k: v for k, v in content.items() if k not in LATER or v}


class Identity(Frozen):
    """All that decides the numbers of a workload; `load` is what its loads have in common."""

    protocol: int
    serving: Serving
    load: dict[str, Any]
    tool: str | None

    def content(self, load: PlannedTraffic) -> dict[str, Any]:
        """Say all that decides the numbers of one load."""
        return {**self.model_dump(), "load": load_content(load)}


def model_content(source: ModelSource, parents: list[str], root: Path) -> dict[str, Any]:
    """Say all that decides a checkpoint: its declaration, its files, and what makes it."""
    # Names inside a study and paths on a host do not decide what a checkpoint is.
    declared = source.model_dump(mode="json", exclude={*PARENTS, *FILES})
    recipe = MODEL_RECIPES.get(source.source, 1)
    content = {"recipe": recipe, "declared": declared, "parents": parents}
    if isinstance(source, Made):
        content |= {"maker": sha256(lock_file(source.made_by, root)), "corpus": CORPUS_VERSION}
    if not isinstance(source, LocalPath):
        return content | {key: sha256(root / file) for key, file in source.files.items()}
    files: list[tuple[str, int, str | None]] = []
    for file in sorted((root / source.path).iterdir()):
        size = file.stat().st_size
        # A checkpoint's shards are told by their name and size.
        is_small = file.is_file() and size <= 8_000_000
        files.append((file.name, size, sha256(file) if is_small else None))
    return {**content, "files": files}


def task_content(folder: Path | None, root: Path) -> list[tuple[str, str]]:
    """Hash the files of a folder of lm-evaluation-harness tasks, by their path in it."""
    if folder is None:
        return []
    files = sorted(path for path in (root / folder).rglob("*") if path.is_file())
    return [(str(file.relative_to(root / folder)), sha256(file)) for file in files]


def load_content(load: PlannedTraffic) -> dict[str, Any]:
    """Say all that decides what is sent, and when.

    What is at its default is left out, so that a key that comes later changes no identity.
    """
    return {**load.model_dump(exclude_defaults=True), "dataset": digest_of(load.dataset)}


def dataset_content(dataset: Dataset, seed: int, root: Path) -> dict[str, Any]:
    """Say all that decides the bytes of a dataset: its declaration, seed and files."""
    spec = dataset.model_dump(mode="json", exclude={"path"}, exclude_defaults=True)
    content: dict[str, Any] = {"recipe": DATASET_RECIPES, "spec": spec, "seed": seed}
    if isinstance(dataset, FromFile):
        path = root / dataset.path
        files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
        content["files"] = [sha256(file) for file in files]
    if dataset.kind in ("text", "conversations"):
        content["corpus"] = CORPUS_VERSION
    return content
