"""How a checkpoint's weights are stored and multiplied, by its quantization_config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servetune.models.shape import UncountedError

_WEIGHTS_ALONE = ("gptq", "gptq_marlin", "auto_gptq", "awq", "awq_marlin", "auto_awq", "auto-round")
_FP8 = ("fp8", "fbgemm_fp8", "deepseek_v4_fp8")
_NVFP4_BLOCK, _MXFP4_BLOCK = 16, 32

_KEPT = re.compile(r"lm_head|embed|router|gate$")
"""Modules that are left in 16 bits, too small to count or counted so anyway."""


@dataclass(frozen=True)
class Format:
    """The format of quantized weights.

    `bits` are those of a weight, and `scale_bits` its share of a scale; None: 16 or 32 bits, as
    stored. `compute` is the type of the multiplications. With `is_experts_alone` the other
    matrices are not quantized. `kept` names modules that are not.
    """

    bits: int | None = None
    scale_bits: float = 0.0
    compute: str = "bf16"
    is_experts_alone: bool = False
    kept: tuple[str, ...] = ()

    @property
    def keeps_linear(self) -> bool:
        """Whether matrices that are read in each pass stay as they are, with others that do not."""
        return not self.is_experts_alone and any(not _KEPT.search(name) for name in self.kept)


def format_of(config: Mapping[str, Any]) -> Format:
    """Read a config.json's quantization.

    Raises:
        UncountedError: it is of a kind that is not understood.
    """
    quantization = config.get("quantization_config")
    if not isinstance(quantization, dict):
        return Format()
    method = str(quantization.get("quant_method") or "").lower()
    names = quantization.get("ignore") or quantization.get("modules_to_not_convert") or []
    kept = tuple(map(str, [*names, *(quantization.get("exclude_modules") or [])]))
    if method.startswith("modelopt"):
        return _modelopt(quantization, kept)
    if method == "mxfp4":
        return Format(4, 8 / _MXFP4_BLOCK, is_experts_alone=True, kept=kept)
    if method in _FP8:
        return Format(8, compute="fp8", kept=kept)
    if method in _WEIGHTS_ALONE and isinstance(bits := _bits(quantization), int):
        return Format(bits, _scale_bits(quantization.get("group_size")), kept=kept)
    if method == "compressed-tensors" and (groups := quantization.get("config_groups")):
        return _compressed(list(groups.values()), kept)
    raise UncountedError(f"quantization {method or 'without a method'} is not understood")


def _bits(quantization: Mapping[str, Any]) -> Any:
    return quantization.get("bits") or quantization.get("w_bit")


def _scale_bits(group_size: Any) -> float:
    return 16 / group_size if isinstance(group_size, int) and group_size > 0 else 0.0


def _modelopt(quantization: Mapping[str, Any], kept: tuple[str, ...]) -> Format:
    algorithm = str(quantization.get("quant_algo")).upper()
    if algorithm in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"):
        return Format(8, compute="fp8", kept=kept)
    if algorithm == "NVFP4":
        return Format(4, 8 / _NVFP4_BLOCK, compute="fp4", kept=kept)
    raise UncountedError(f"quantization modelopt {algorithm} is not understood")


def _compressed(groups: list[dict[str, Any]], kept: tuple[str, ...]) -> Format:
    formats = {_group(group) for group in groups}
    if len(formats) != 1:
        raise UncountedError("its groups of weights are quantized in different ways")
    (bits, scale_bits, compute) = formats.pop()
    return Format(bits, scale_bits, compute, kept=kept)


def _group(group: dict[str, Any]) -> tuple[int, float, str]:
    weights, activations = group.get("weights") or {}, group.get("input_activations") or {}
    bits, activation_bits = weights.get("num_bits"), activations.get("num_bits")
    is_float = activations.get("type") == "float"
    match activation_bits:
        case None | 16:
            compute = "bf16"
        case 8:
            compute = "fp8" if is_float else "int8"
        case 4 if is_float:
            compute = "fp4"
        case _:
            raise UncountedError(f"activations of {activation_bits} bits are not understood")
    if not isinstance(bits, int):
        raise UncountedError("its quantization tells no bits of a weight")
    if bits == 4 and weights.get("type") == "float":
        size = weights.get("group_size")
        return bits, 8 / size if isinstance(size, int) and size > 0 else 0.0, compute
    return bits, _scale_bits(weights.get("group_size")), compute
