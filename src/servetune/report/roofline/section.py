"""Roofline: what decode and prefill achieved of what the device allows."""

from dataclasses import dataclass

from servetune.analysis.findings.gather import Case
from servetune.report.measured import Measured
from servetune.report.roofline.charts import roofline
from servetune.report.section import Section
from servetune.report.wording import number, where_of


@dataclass(frozen=True)
class Roofline:
    """What the template takes.

    `ceilings` says what was held against; `impossible` where more was achieved than is possible.
    """

    placed: list[Case]
    ceilings: list[str]
    impossible: list[str]


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load point has a place on the roofline."""
    placed = [case for case in measured.loaded if case.attained]
    if not placed:
        return None
    impossible = [
        f"{case.row['variant']} at {where_of(case.row)}"
        for case in placed
        if case.attained and not case.attained.is_possible
    ]
    words = Roofline(placed, _ceilings(measured.loaded), impossible)
    return Section("roofline", "Roofline", words, {"roofline": roofline(placed, measured.variants)})


def _ceilings(cases: list[Case]) -> list[str]:
    """Say what the rooflines were held against, each once."""
    found = []
    for case in cases:
        if case.engine is None:
            continue
        of = case.engine.ceilings
        kinds = (("bf16", of.bf16_tflop_s), ("fp8", of.fp8_tflop_s), ("int8", of.int8_tflop_s))
        told = [f"{number(value)} TFLOP/s in {name}" for name, value in kinds if value]
        parts = [f"{number(of.memory_bandwidth_gb_s)} GB/s", *told]
        found.append(f"{', '.join(parts)} ({of.source})")
    return list(dict.fromkeys(found))
