"""Do sessions beside each other measure what each measures alone? A verdict on a host."""

import pandas as pd

from servetune.analysis.launches import at_first_look
from servetune.analysis.verdicts import compare
from servetune.errors import UserError
from servetune.records.sessions import SessionRecord, Together
from servetune.tables.design import Design

EQUIVALENCE = 0.02
"""What a neighbour may change, as a relative difference."""

DECIDING = ("output_throughput_tok_s", "tpot_p50_ms")
"""What must be proven alike. A TTFT varies too much from launch to launch for that; it is only
taken as evidence of the contrary."""


def find_pair(design: Design) -> tuple[str, str]:
    """Return the variant that is measured alone, and the one with neighbours.

    Raises:
        UserError: the study does not have one of each.
    """
    names = {neighbours: variant for variant, neighbours in design.neighbours.items()}
    if set(names) != {"none", "all"} or len(design.variants) != 2:
        raise UserError(
            f"studies/{design.study}.yaml: variants: expected two that are alike, one with"
            " neighbours: none and one with neighbours: all, such as in"
            " gallery/studies/h200-together.yaml"
        )
    return names["none"], names["all"]


def judge_together(values: pd.DataFrame, alone: str) -> tuple[Together, pd.DataFrame]:
    """Judge `launch_values` with neighbours against those without; returns both kinds of verdict.

    They are alike if every throughput and TPOT is proven to be, and disturbed if anything is
    proven to differ.
    """
    verdicts = compare(at_first_look(values), alone, EQUIVALENCE)
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
