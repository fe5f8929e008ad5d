"""A checkpoint as a server loads it: what its arguments make of the weights, and how often."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from servetune.models.shape import UncountedError
from servetune.records.sessions import Architecture, Launch

_WEIGHTS = {
    **dict.fromkeys(("fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel"), "fp8"),
    "int8_per_channel_weight_only": "bf16",
}
"""Quantizations at load to 8 bits, of all but the head, and what is multiplied then."""
_EXPERTS = "experts_int8"
"""That of the experts alone."""

_SHAPE = re.compile(
    "num_|hidden|intermediate|layer|head|expert|vocab|window|rank|_config|architectures|model_type"
)
"""Keys of `hf_overrides` that give a model another shape; positions and their scaling do not."""

_SIZE = "_parallel_size"
_NOT_SPLIT = ("pipeline", "prefill_context")
"""Ways to split a model in which its devices take turns, or share a prompt."""


@dataclass(frozen=True)
class Served:
    """What a launch served: models as it loaded them, in `copies` on `devices` together."""

    model: Architecture
    draft: Architecture | None
    copies: int
    devices: int


def loaded(model: Architecture, arguments: Mapping[str, Any]) -> Architecture:
    """Return a checkpoint as a server loads it that has these arguments, by vLLM's names.

    Raises:
        UncountedError: what the arguments make of it is not understood.
    """
    overrides: Any = arguments.get("hf_overrides") or {}
    if isinstance(overrides, str):
        with suppress(ValueError):  # a command line has it as text
            overrides = json.loads(overrides)
    if not isinstance(overrides, Mapping) or any(map(_SHAPE.search, overrides)):
        raise UncountedError("hf_overrides give it another shape")
    if str(arguments.get("dtype") or "auto").removeprefix("torch.") in ("float32", "float"):
        raise UncountedError("dtype float32: the ceiling of its multiplications is not known")
    if arguments.get("quantization_config"):
        raise UncountedError("quantization_config is not understood")
    model = _in_16_bits(model)
    quantization = arguments.get("quantization")
    if not quantization or _is_quantized(model):
        return model
    if not isinstance(quantization, str):
        raise UncountedError(f"quantization {quantization} of its weights is not understood")
    if quantization == _EXPERTS:
        return _in_8_bits(model, "expert")
    if quantization not in _WEIGHTS:
        raise UncountedError(f"quantization {quantization} of its weights is not understood")
    eight = _in_8_bits(_in_8_bits(model, "linear"), "expert")
    return eight.model_copy(update={"compute": _WEIGHTS[quantization]})


def served(launch: Launch) -> Served:
    """Return what a launch served, by its own report, else by its command line.

    Raises:
        UncountedError: a checkpoint is not understood, or how it was loaded or split.
    """
    if launch.model is None:
        raise UncountedError(launch.uncounted or "its checkpoint is not understood")
    parallel, model = (_resolved(launch, name) for name in ("parallel_config", "model_config"))
    split(parallel)
    drafting = launch.config("speculative_config")
    draft = launch.draft and loaded(
        launch.draft, {"quantization": drafting.get("quantization"), "dtype": model.get("dtype")}
    )
    copies = _size(parallel, "data") * len(launch.replicas or [launch])
    devices = 1 if _is_cpu(launch) else copies * devices_of(launch)
    return Served(loaded(launch.model, model), draft, copies, devices)


def devices_of(launch: Launch) -> int:
    """Return how many devices a copy of the weights is on; processors are one, of all cores."""
    tensor = launch.server.tensor_parallel_size
    tensor = tensor or _size(_resolved(launch, "parallel_config"), "tensor")
    return 1 if _is_cpu(launch) else tensor


def _is_cpu(launch: Launch) -> bool:
    return launch.host.get("gpus") == []


def split(arguments: Mapping[str, Any]) -> None:
    """Check how a server splits a model over devices.

    Raises:
        UncountedError: in a way that is not understood.
    """
    for kind in _NOT_SPLIT:
        if (size := _size(arguments, kind)) > 1:
            raise UncountedError(f"{kind}{_SIZE} {size}: what its devices do at once is not known")
    local = arguments.get(f"data{_SIZE}_local")
    if isinstance(local, int) and 0 < local < _size(arguments, "data"):
        raise UncountedError("engines on other hosts are not understood")


def _size(arguments: Mapping[str, Any], kind: str) -> int:
    size = str(arguments.get(f"{kind}{_SIZE}") or 1)
    # No host has a million devices.
    return int(size) if size.isdecimal() and len(size) <= 6 else 1


def _resolved(launch: Launch, section: str) -> Mapping[str, Any]:
    """Return a section of the configuration that a launch told, else its command line's options."""
    if told := launch.config(section):
        return told
    words = [part for word in launch.command for part in word.split("=", 1)]
    options = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(words, [*words[1:], ""], strict=True)
        if name.startswith("--")
    }
    return {name: value for name, value in options.items() if not value.startswith("--")}


def _is_quantized(model: Architecture) -> bool:
    return model.linear_bytes < 2 * model.linear_parameters or (
        model.expert_bytes < 2 * model.expert_parameters
    )


def _in_16_bits(model: Architecture) -> Architecture:
    """Return a checkpoint whose weights of 32 bits became 16, as vLLM makes them by itself."""
    changed = {
        f"{kind}_bytes": size - 2 * parameters
        for kind in ("linear", "head", "expert")
        for size, parameters in [
            (getattr(model, f"{kind}_bytes"), getattr(model, f"{kind}_parameters"))
        ]
        if parameters and size >= 4 * parameters
    }
    return _changed(model, changed)


def _in_8_bits(model: Architecture, kind: str) -> Architecture:
    size, parameters = getattr(model, f"{kind}_bytes"), getattr(model, f"{kind}_parameters")
    return _changed(model, {f"{kind}_bytes": size - parameters})


def _changed(model: Architecture, sizes: dict[str, int]) -> Architecture:
    spared = sum(getattr(model, name) - size for name, size in sizes.items())
    return model.model_copy(update={**sizes, "stored_bytes": model.stored_bytes - spared})
