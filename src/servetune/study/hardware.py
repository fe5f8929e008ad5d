"""What accelerators are called: as NVML tells it, in lower case, with a dash between words."""

import difflib
from typing import Annotated

from pydantic import AfterValidator

from servetune.study.base import Name

CPU = "cpu"

KNOWN = (
    CPU,
    "nvidia-a10",
    "nvidia-a100-80gb-pcie",
    "nvidia-a100-pcie-40gb",
    "nvidia-a100-sxm4-40gb",
    "nvidia-a100-sxm4-80gb",
    "nvidia-a10g",
    "nvidia-a16",
    "nvidia-a2",
    "nvidia-a30",
    "nvidia-a40",
    "nvidia-a800-80gb-pcie",
    "nvidia-a800-sxm4-80gb",
    "nvidia-b200",
    "nvidia-b300-sxm6-ac",
    "nvidia-gb10",
    "nvidia-gb200",
    "nvidia-gb300",
    "nvidia-geforce-rtx-3060",
    "nvidia-geforce-rtx-3070",
    "nvidia-geforce-rtx-3080",
    "nvidia-geforce-rtx-3080-ti",
    "nvidia-geforce-rtx-3090",
    "nvidia-geforce-rtx-3090-ti",
    "nvidia-geforce-rtx-4060",
    "nvidia-geforce-rtx-4060-ti",
    "nvidia-geforce-rtx-4070",
    "nvidia-geforce-rtx-4080",
    "nvidia-geforce-rtx-4090",
    "nvidia-geforce-rtx-5070",
    "nvidia-geforce-rtx-5070-ti",
    "nvidia-geforce-rtx-5080",
    "nvidia-geforce-rtx-5090",
    "nvidia-gh200-480gb",
    "nvidia-h100-80gb-hbm3",
    "nvidia-h100-nvl",
    "nvidia-h100-pcie",
    "nvidia-h20",
    "nvidia-h200",
    "nvidia-h200-nvl",
    "nvidia-h800",
    "nvidia-l20",
    "nvidia-l4",
    "nvidia-l40",
    "nvidia-l40s",
    "nvidia-rtx-6000-ada-generation",
    "nvidia-rtx-a5000",
    "nvidia-rtx-a6000",
    "nvidia-rtx-pro-6000-blackwell-server-edition",
    "nvidia-rtx-pro-6000-blackwell-workstation-edition",
    "quadro-rtx-6000",
    "quadro-rtx-8000",
    "tesla-p40",
    "tesla-t4",
    "tesla-v100-pcie-16gb",
    "tesla-v100-pcie-32gb",
    "tesla-v100-sxm2-16gb",
    "tesla-v100-sxm2-32gb",
)
"""Names to hint at. A name that is not here may be one of a newer GPU, and is taken."""

_MAKERS = {"geforce", "nvidia", "quadro", "tesla"}
_ANY = {"cuda", "gpu", "gpus"}


def _checked(name: str) -> str:
    """Return a name that a GPU may have.

    Raises:
        ValueError: it is a part of a known name, close to one of no maker, or of a MIG slice.
    """
    words = set(name.lower().split("-"))
    if name in KNOWN:
        return name
    if "mig" in words:
        raise ValueError("a MIG slice; only whole GPUs are measured")
    of_model = words - _MAKERS - _ANY
    longer = [known for known in KNOWN if of_model and of_model <= set(known.split("-"))]
    if longer or not of_model:
        which = (
            ", ".join(longer) or "cpu, or its name as `nvidia-smi -L` shows it, such as nvidia-h200"
        )
        raise ValueError(f"no GPU is called so; expected {which}")
    close = [] if words & _MAKERS else difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)
    if close:
        raise ValueError(f"no GPU is called so; did you mean {close[0]}?")
    return name


Hardware = Annotated[Name, AfterValidator(_checked)]
"""`cpu`, or what an accelerator is called."""
