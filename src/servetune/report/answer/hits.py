"""What the answer says of prefix-cache hits, where gateways' policies are compared."""

from collections.abc import Iterator

from servetune.analysis.hits import Hits
from servetune.analysis.wording import proportion
from servetune.report.measured import Measured
from servetune.report.verdicts import few
from servetune.tables.frames import grouped


def of_hits(measured: Measured, most: int) -> Iterator[tuple[str, str]]:
    """Say at which loads a gateway's policy is proven to hit the caches more, or less.

    A sentence names `most` variants; the table names them all.
    """
    for (workload, point), here in grouped(
        measured.hits, lambda each: (each.workload, each.load_point)
    ).items():
        by_verdict = grouped(here, lambda each: each.verdict)
        told = [
            f"{few((_with_hits(each) for each in same), most)}"
            f" {'hits' if len(same) == 1 else 'hit'} {verdict} than {measured.plan.baseline}"
            f" ({proportion(same[0].base_ratio)})."
            for verdict in ("more", "fewer")
            if (same := by_verdict.get(verdict))
        ]
        if told and (open_ := by_verdict.get("undecided")):
            told.append(f"Undecided: {few(map(_with_hits, open_), most)}.")
        if told:
            yield f"Prefix-cache hits, {workload} {point}", " ".join(told)


def _with_hits(hits: Hits) -> str:
    return f"{hits.variant} ({proportion(hits.ratio)})"
