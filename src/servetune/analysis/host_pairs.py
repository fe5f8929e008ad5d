"""Two equal variants, one of them measured in another way: does the way change what is measured?

A study may have several such pairs. A way is proven on a host by launches of both, interleaved.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

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


def couples_of(design: Design) -> tuple[Way, list[tuple[str, str]]]:
    """Return the way that a study is about, and each two variants that differ in it alone.

    Of more than two the first is in all pairs. What has no like is in none.

    Raises:
        UserError: there are no such two, or they are about different ways.
    """
    alike: dict[str, list[str]] = {}
    for name in design.variants:
        alike.setdefault(json.dumps(design.served[name], sort_keys=True), []).append(name)
    couples: dict[Way, list[tuple[str, str]]] = {}
    for names in alike.values():
        plain, alone, beside = (
            [name for name in names if design.neighbours[name] == declared]
            for declared in (None, "none", "all")
        )
        if len(plain) > 1:
            couples.setdefault("prepared", []).extend((plain[0], other) for other in plain[1:])
        if alone and beside:
            pairs = [*product(alone[:1], beside), *product(alone[1:], beside[:1])]
            couples.setdefault("together", []).extend(pairs)
    if len(couples) == 1:
        return couples.popitem()
    raise UserError(
        f"studies/{design.study}.yaml: variants: expected two or more that are alike, or several"
        " such pairs: one with neighbours: none and one with neighbours: all, such as in"
        " gallery/studies/h200-together.yaml, or two without neighbours, such as in"
        " gallery/studies/h200-prepared.yaml"
    )


def pairs_of(design: Design, sessions: Iterable[SessionRecord]) -> list[Pair]:
    """Return which variant of each two was measured in their way.

    Raises:
        UserError: there are no such two, or not one of them alone has prepared starts.
    """
    way, couples = couples_of(design)
    if way == "together":
        return [Pair(way, *couple) for couple in couples]
    prepared = {s.variant for s in sessions if any(launch.prepared for launch in s.launches)}
    pairs = []
    for couple in couples:
        others = [name for name in couple if name in prepared]
        if len(others) != 1:
            to_prepare = " ".join(second for _, second in couples)
            raise UserError(
                f"results/{design.study}: of {' and '.join(couple)}, {len(others) or 'none'} had"
                " prepared starts; expected of one: measure it from a bundle, with --prepare"
                f" {to_prepare}"
            )
        (plain,) = {*couple} - {*others}
        pairs.append(Pair(way, plain, others[0]))
    return pairs


def of_pair(
    values: pd.DataFrame, pair: Pair, sessions: Iterable[SessionRecord], study: str
) -> pd.DataFrame:
    """Return the `launch_values` of launches that were what their variant stands for.

    The first start of a run is a plain one, of either variant.

    Raises:
        UserError: one of the two has none.
    """
    values = values[values["variant"].isin([pair.plain, pair.other])]
    if pair.way == "prepared":
        prepared = {
            measurement
            for session in sessions
            for launch in session.launches
            if launch.prepared
            for measurement in launch.measured
        }
        is_other = values["variant"] == pair.other
        values = values[values["measurement"].isin(prepared) == is_other]
    names = {*values["variant"]}
    if lacking := [name for name in (pair.plain, pair.other) if name not in names]:
        raise UserError(
            f"results/{study}: no valid measurement of {' and '.join(lacking)} to judge by; see: uv"
            f" run servetune show --study {study}"
        )
    return values.reset_index(drop=True)


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


def on_all(verdicts: Iterable[Alike]) -> Alike:
    """Return what holds of a way by all of its pairs: one that is disturbed decides it."""
    kinds = {*verdicts}
    for verdict in ("disturbed", "undecided"):
        if verdict in kinds:
            return verdict
    return "alike"


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
