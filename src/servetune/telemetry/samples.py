"""Reading the samples of a launch: `raw/<session>/telemetry-<launch>.parquet`, of others too."""

import re
from pathlib import Path

import pandas as pd

from servetune.engines.counters import figure_of
from servetune.engines.registry import FIGURES
from servetune.parquet import Kind, read_table

_TEXTS = re.compile(r"measurement|gpu\d+_throttle_reasons")
_NUMBERS = re.compile(
    r"time_s|client_cpu_s|other_cpu_s|gpu_other_processes|gpu\d+_\w+|accepted_tokens_at_\d+"
)


def read_samples(path: Path) -> pd.DataFrame:
    """Read the columns of `docs/reference/telemetry.md` that there are, one row a sample.

    Raises:
        UserError: there is no such file.
        DamagedError: it is cut, or holds something else.
    """
    return read_table(path, "time_s", "measurement", kind_of=_kind_of)


def _kind_of(column: str) -> Kind | None:
    if _TEXTS.fullmatch(column):
        return "text"
    is_number = figure_of(column) in FIGURES or _NUMBERS.fullmatch(column)
    return "number" if is_number else None
