"""How a planned checkpoint comes to be: made, fetched, or found on this host."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id, read_engine
from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.files import read_model, sha256, write_json
from servetune.lifetime.guard import run_guarded
from servetune.locks import locked
from servetune.models.words import write_words
from servetune.plan.planned import PlannedModel
from servetune.progress import say
from servetune.study.base import Frozen, Id
from servetune.study.models import MAKER, HuggingFace, LocalPath, Made, ModelSource, Shape, Words

MANIFEST = "servetune.json"
"""Written last into each model's folder: where the checkpoint is, and what it holds."""

TOKENIZER_FILES = ("*token*", "vocab.*", "merges.txt", "chat_template*")


class ModelManifest(Frozen):
    """What a model's folder says of itself.

    `checkpoint` is a path from the project's folder, or `.` for the model's own; `sha256` holds
    the digests of what was made there, by the names of files.
    """

    id: Id
    checkpoint: str
    source: dict[str, Any] = {}
    seconds: float | None = None
    sha256: dict[str, str] = {}


def model_folder(id: str, root: Path) -> Path:
    """Return the folder of a planned model."""
    return root / "data" / "models" / id


def described(planned: PlannedModel, root: Path) -> Path | None:
    """Return the checkpoint of a model that is made, or else a shape's config.json; None: neither.

    Raises:
        UserError: as `checkpoint` does.
    """
    if (model_folder(planned.id, root) / MANIFEST).is_file():
        return checkpoint(planned.id, root)
    source = planned.source
    return root / source.config if isinstance(source, Shape) else None


def checkpoint(id: str, root: Path) -> Path:
    """Return the checkpoint of a planned model that has been made.

    Raises:
        UserError: it has not been made.
    """
    folder = model_folder(id, root)
    try:
        manifest = read_model(folder / MANIFEST, ModelManifest)
    except FileNotFoundError:
        raise UserError(f"{folder}: no such model; run: uv run servetune model {id}") from None
    if manifest.checkpoint == ".":
        return folder.absolute()
    path: Path = (root / manifest.checkpoint).absolute()
    if not path.exists():
        raise UserError(
            f"{folder}: its checkpoint {path} is gone; remove the folder to make it again"
        )
    return path


def make_model(planned: PlannedModel, root: Path) -> None:
    """Bring a planned model into its folder under data/models, unless it is there.

    Raises:
        UserError: it cannot be made or fetched; the message says why.
    """
    folder = model_folder(planned.id, root)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f".{folder.name}.lock")):
        if (folder / MANIFEST).is_file():
            return
        began = time.monotonic()
        shutil.rmtree(folder, ignore_errors=True)
        where = _bring(planned.source, planned.parents, folder, root)
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted(folder.iterdir()) if where == "." else []
        manifest = ModelManifest(
            id=planned.id,
            source=planned.source.model_dump(mode="json"),
            checkpoint=where,
            seconds=round(time.monotonic() - began, 1),
            sha256={file.name: sha256(file) for file in files},
        )
        write_json(folder / MANIFEST, manifest)


def _bring(source: ModelSource, parents: dict[str, str], folder: Path, root: Path) -> str:
    """Make or find a checkpoint; returns where it is, `.` for the folder itself."""
    match source:
        case Made():
            options = source.model_dump(exclude={"source"}, exclude_none=True)
            options |= {
                key: checkpoint(parents[name], root) for key, name in source.parents.items()
            }
            options |= {key: root / file for key, file in source.files.items()}
            _run_maker(source.made_by, source.source, {**options, "out": folder}, root)
            return "."
        case HuggingFace():
            return _fetch(source, root)
        case LocalPath():
            return str(source.path)
        case Words():
            write_words(source.vocabulary, folder, round_trip=source.round_trip)
            return "."
        case Shape():
            _copy_shape(source, parents, folder, root)
            return "."


def _fetch(source: HuggingFace, root: Path) -> str:
    repo, revision = source.repo, source.revision
    if revision is None:
        raise UserError(
            f"models: {repo}: no revision is pinned, so its numbers are not reproducible;"
            f" add revision: {_ask_hub([repo], root)}, the latest"
        )
    say(f"fetching {repo} at {revision[:12]} from the Hugging Face hub")
    return _ask_hub([repo, revision], root)


def _ask_hub(words: list[str], root: Path) -> str:
    python = read_engine(engine_id(MAKER, root)).python
    done = run_guarded(
        [str(python), "-m", "servetune.models.inside.hub", *words],
        environment_with_source(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"models: {words[0]}: cannot be fetched: {last}")
    return done.stdout.strip().splitlines()[-1]


def _copy_shape(source: Shape, parents: dict[str, str], folder: Path, root: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copyfile(root / source.config, folder / "config.json")
    if source.tokenizer:
        lender = checkpoint(parents[source.tokenizer], root)
        for pattern in TOKENIZER_FILES:
            for file in lender.glob(pattern):
                shutil.copyfile(file, folder / file.name)


def _run_maker(environment: str, maker: str, options: dict[str, Any], root: Path) -> None:
    """Run a program of `models/inside`, each option as `--name=value`."""
    python = read_engine(engine_id(environment, root)).python
    log = root / "logs" / f"{maker}.log"
    module = f"servetune.models.inside.{maker}"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as output:
        done = run_guarded(
            [str(python), "-m", module, *(f"--{name}={value}" for name, value in options.items())],
            # Threads that wait by spinning starve each other on two cores.
            {"OMP_WAIT_POLICY": "passive", **environment_with_source()},
            stdout=output,
        )
    if done.returncode:
        raise UserError(f"models: {module} failed; see {log}")
