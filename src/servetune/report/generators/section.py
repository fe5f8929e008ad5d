"""Load generators beside each other, where several sent the same load."""

from servetune.analysis.generators import WITHIN, SameLoad, same_loads
from servetune.analysis.wording import change, listed, valued_beside, where_of
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table
from servetune.study.base import DECIDING

HEADS = {
    "output_throughput_tok_s": "Output, tok/s",
    "ttft_p50_ms": "TTFT p50, ms",
    "tpot_p50_ms": "TPOT p50, ms",
}


_HEADS_SHORT = {name: head.partition(",")[0] for name, head in HEADS.items()}


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load was sent by several generators."""
    loads = same_loads(measured.design, measured.compared, measured.judgement.one_look)
    if not loads:
        return None
    rows: list[list[Cell]] = [
        [
            Name(load.variant),
            where_of(row),
            generator,
            *(valued_beside(row, name, load.ratios(generator).get(name)) for name in HEADS),
        ]
        for load in loads
        for generator, row in load.rows.items()
    ]
    heads = ("Variant", "Load", "Generator", *HEADS.values())
    table = Table("Load generators", heads, rows, texts=heads[:3])
    said = " ".join(map(_sentence, loads))
    return Section(
        "generators",
        "Load generators",
        Plain(said, table),
        markdown=lambda fit: f"### Load generators\n\n{said}\n\n{table_of(measured, table)}",
    )


def _sentence(load: SameLoad) -> str:
    first, *others = load.rows
    who = f"{listed(others)} on the same load of {load.variant}"
    if load.apart:
        differing = (
            f"{generator}: "
            + ", ".join(f"{_HEADS_SHORT[name]} {change(ratio)}" for name, ratio in apart)
            for generator, apart in load.apart.items()
        )
        return (
            f"{first} does not agree with {who}. {'; '.join(differing)}. Compare variants within"
            " one generator."
        )
    if load.is_decided:
        agreed = listed(f"{_HEADS_SHORT[name]} within {WITHIN[name]:.0%}" for name in load.agreed)
        return f"{first} agrees with {who}: {agreed}."
    why = (
        f"a verdict takes {DECIDING} launches of each, and one generator has {load.launches}"
        if load.launches < DECIDING
        else "their launches differ by too much"
    )
    return f"Undecided: whether {first} agrees with {who}, as {why}."
