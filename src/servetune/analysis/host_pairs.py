"""Two equal variants, one of them measured in another way: does the way change what is measured?

A way is proven on a host by launches of both, interleaved.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from servetune.analysis.launches import at_first_look
from servetune.analysis.verdicts import compare
from servetune.errors import UserError
from servetune.records.sessions import Alike, SessionRecord, Way
from servetune.tables.design import Design

EQUIVALENCE = 0.02
"""What a way may change, as a relative difference."""

DECIDING = ("output_throughput_tok_s", "tpot_p50_ms")
"""What must be proven alike. A TTFT varies too much from launch to launch for that; it is only
taken as evidence of the contrary."""


@dataclass(frozen=True)
class Pair:
    """The variant that is measured plainly, and the other, measured in this way."""

    way: Way
    plain: str
    other: str


def way_of(design: Design) -> Way:
    """Return the way that a study of two equal variants is about.

    Raises:
        UserError: it is no such study.
    """
    names = design.variants
    if len(names) == 2:
        declared = {design.neighbours[name] for name in names}
        if declared == {"none", "all"}:
            return "together"
        if declared == {None} and design.served[names[0]] == design.served[names[1]]:
            return "prepared"
    raise UserError(
        f"studies/{design.study}.yaml: variants: expected two that are alike: one with neighbours:"
        " none and one with neighbours: all, such as in gallery/studies/h200-together.yaml, or"
        " two without neighbours, such as in gallery/studies/h200-prepared.yaml"
    )


def pair_of(design: Design, sessions: Iterable[SessionRecord]) -> Pair:
    """Return which variant of such a study was measured in its way.

    Raises:
        UserError: it is no such study, or not one variant alone has prepared starts.
    """
    way = way_of(design)
    if way == "together":
        names = {neighbours: variant for variant, neighbours in design.neighbours.items()}
        return Pair(way, names["none"], names["all"])
    prepared = {s.variant for s in sessions if any(launch.prepared for launch in s.launches)}
    if len(prepared) != 1:
        raise UserError(
            f"results/{design.study}: prepared starts of {len(prepared)} variants; expected of"
            f" one: measure it from a bundle, with --prepare {design.variants[-1]}"
        )
    (other,) = prepared
    (plain,) = {*design.variants} - prepared
    return Pair(way, plain, other)


def of_pair(values: pd.DataFrame, pair: Pair, sessions: Iterable[SessionRecord]) -> pd.DataFrame:
    """Return the `launch_values` of launches that were what their variant stands for.

    The first start of a run is a plain one, of either variant.
    """
    if pair.way == "together":
        return values
    prepared = {
        measurement
        for session in sessions
        for launch in session.launches
        if launch.prepared
        for measurement in launch.measured
    }
    is_other = values["variant"] == pair.other
    return values[values["measurement"].isin(prepared) == is_other].reset_index(drop=True)


def judge_pair(values: pd.DataFrame, plain: str) -> tuple[Alike, pd.DataFrame]:
    """Judge `launch_values` of a pair; returns the verdict on its way, and those on metrics.

    They are alike if every throughput and TPOT is proven to be, and disturbed if anything is
    proven to differ.
    """
    verdicts = compare(at_first_look(values), plain, EQUIVALENCE)
    deciding = verdicts.loc[verdicts["metric"].isin(DECIDING), "verdict"]
    if verdicts["verdict"].isin(["faster", "slower"]).any():
        return "disturbed", verdicts
    is_alike = len(deciding) > 0 and bool((deciding == "indistinguishable").all())
    return ("alike" if is_alike else "undecided"), verdicts


def host_of(study: str, sessions: list[SessionRecord]) -> str:
    """Return the host that all launches of these sessions ran on.

    Raises:
        UserError: there are several, or none is known.
    """
    hosts = {launch.slot.host for s in sessions for launch in s.launches if launch.slot}
    if len(hosts) != 1:
        raise UserError(
            f"results/{study}: launches ran on {len(hosts) or 'unknown'} hosts; expected one host"
        )
    return hosts.pop()
