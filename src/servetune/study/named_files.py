"""The files that a study names: there, and of the form that a step will need, before it starts."""

import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

from servetune.errors import UserError
from servetune.files import json_of, read_given
from servetune.study.datasets import FromFile
from servetune.study.engines import EnginePython
from servetune.study.models import LocalPath, ModelSource, Quantized, Shape, Words
from servetune.study.published import check_published
from servetune.study.sources import check_json_lines, check_source
from servetune.study.study import Study

LARGEST_CONFIG = 10_000_000
"""Bytes of a config.json: a thousand times what most have."""

MOST_FILES = 10_000
"""Of a checkpoint or of tasks: a plan looks at each."""

_INDEX = (".safetensors.index.json", ".bin.index.json")
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024

_COUNTS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
"""What a shape has to tell; a checkpoint may call them otherwise."""


def check_files(study: Study, file: Path, root: Path) -> None:
    """Check every file that a study names; `file` is the study's own.

    Raises:
        UserError: the first that is not as it should be, with the key that names it.
    """
    # A model that is only a tokenizer has no architecture.
    tokenizers = {source.parents.get("tokenizer") for source in study.models.values()}
    tokenizers -= {variant.model for variant in study.variants.values()}
    for name, source in study.models.items():
        _at(f"{file}: models.{name}", _check_model, source, root, name not in tokenizers)
    for name, dataset in study.datasets.items():
        if isinstance(dataset, FromFile):
            _at(f"{file}: datasets.{name}.path", check_source, dataset, root)
    if study.published:
        _at(f"{file}: published", check_published, study.published, root)
    if study.quality and study.quality.lm_eval and (folder := study.quality.lm_eval.folder):
        _at(f"{file}: quality.lm_eval.folder", check_folder, folder, root, "**/*")
    engines = {f"variants.{name}.engine": v.engine for name, v in study.variants.items()}
    for key, engine in {"engine": study.engine, **engines}.items():
        if isinstance(engine, EnginePython):
            _at(f"{file}: {key}.python", _check_program, engine.python, root)


def _at(place: str, check: Any, *arguments: Any) -> None:
    """Run a check, whose errors begin with the place in the study that named what is wrong."""
    try:
        check(*arguments)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    except OSError as error:
        raise UserError(f"{place}: cannot be read: {error.strerror}") from None


def _check_model(source: ModelSource, root: Path, is_served: bool) -> None:
    if isinstance(source, LocalPath):
        check_folder(source.path, root, "*")
        _check_is_whole(source.path, root)
        # Mistral's checkpoints have a params.json in its place.
        configs = [source.path / name for name in ("config.json", "params.json")]
        config = next((path for path in configs if (root / path).exists()), None)
        if config:
            _check_config(config, root, required=False)
        elif is_served:
            raise UserError(f"{source.path}: has no config.json; expected a checkpoint")
    elif isinstance(source, Words) and is_served:
        raise UserError("is a tokenizer alone; expected a model that names it as its tokenizer")
    elif isinstance(source, Shape):
        _check_config(source.config, root, required=True)
    elif isinstance(source, Quantized) and source.calibration:
        check_json_lines(source.calibration, root, "text")


def _check_is_whole(path: Path, root: Path) -> None:
    """Check that a checkpoint was downloaded to its end."""
    for file in sorted((root / path).iterdir()):
        if not file.is_file():
            continue
        if file.stat().st_size < _POINTER_BYTES and file.read_bytes().startswith(_POINTER):
            raise UserError(
                f"{path}: {file.name}: a pointer of Git LFS in place of the file; run git lfs pull"
                " there"
            )
        if file.name.endswith(_INDEX):
            name = str(path / file.name)
            index = json_of(read_given(file, name, LARGEST_CONFIG), name)
            shards = index.get("weight_map") if isinstance(index, dict) else None
            if not isinstance(shards, dict):
                raise UserError(
                    f"{name}: expected an object with weight_map, the file of each tensor"
                )
            named = sorted({str(one) for one in shards.values()})
            missing = [one for one in named if not file.with_name(Path(one).name).is_file()]
            if missing:
                more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
                raise UserError(
                    f"{path}: {missing[0]}: missing, but {file.name} names it{more}; download the"
                    " checkpoint again"
                )


def _check_config(path: Path, root: Path, required: bool) -> None:
    config = json_of(read_given(root / path, str(path), LARGEST_CONFIG), str(path))
    if not isinstance(config, dict):
        raise UserError(f"{path}: expected a JSON object, as the config.json of a checkpoint")
    nested = config.get("text_config")
    told = {**config, **(nested if isinstance(nested, dict) else {})}
    for key in _COUNTS:
        value = told.get(key)
        if value is None and not required:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**9:
            given = "missing" if value is None else json.dumps(value)[:60]
            raise UserError(f"{path}: {key}: {given}: expected a whole number from 1")


def check_folder(path: Path, root: Path, pattern: str) -> None:
    """Check that a path is a folder of few enough files, none of them a link to nothing."""
    folder = root / path
    if not folder.exists():
        raise UserError(f"{path}: no such folder")
    if not folder.is_dir():
        raise UserError(f"{path}: expected a folder")
    files = list(islice(folder.glob(pattern), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise UserError(f"{path}: has more than {MOST_FILES:,} files; name a smaller folder")
    for file in files:
        if not file.exists():
            raise UserError(f"{path}: {file.name}: a link to nothing")


def _check_program(path: Path, root: Path) -> None:
    program = root / path
    if not program.exists():
        raise UserError(f"{path}: no such file")
    if not (program.is_file() and os.access(program, os.X_OK)):
        raise UserError(f"{path}: expected a Python, a file that can be run")
