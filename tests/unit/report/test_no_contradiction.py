"""No sentence of a report says what one of its tables denies, in any recorded study."""

from typing import Any

import pytest

from servetune.analysis.findings.bounds import Bound
from servetune.analysis.findings.gather import findings
from servetune.analysis.wording import where_of
from servetune.report.answer.view import sentences
from servetune.report.reading import read_measured
from servetune.report.roofline.section import section as roofline
from tests.recorded import RECORDED, plan_of, results_of

pytestmark = pytest.mark.slow

OF_STEP = {
    "decode-at-the-bandwidth-ceiling": Bound.BANDWIDTH,
    "decode-far-from-the-ceiling": Bound.STEP,
}
OF_LOAD = {
    "client-bound": Bound.CLIENT,
    "front-end-is-the-limit": Bound.FRONT_END,
    "kv-bound": Bound.KV_CACHE,
    "throttled-by-max-num-seqs": Bound.FULL_BATCH,
    "token-budget": Bound.FULL_BATCH,
}


OF_ENGINE = {"kv-under-used", "prefill-bound-ttft", "queueing-dominates-ttft"}
"""What is said of an engine that nothing before it keeps from its work."""


@pytest.mark.parametrize("study", RECORDED)
def test_findings_roofline_verdicts_and_answer_agree(study: str) -> None:
    measured = read_measured(plan_of(study), results_of(study).parents[1])
    made = roofline(measured)
    placed = made.words["placed"] if made and isinstance(made.words, dict) else []
    bounds: dict[tuple[str, str], set[tuple[Any, Any]]] = {}
    for case, step, load in placed:
        at = (case.row["variant"], where_of(case.row))
        bounds.setdefault(at, set()).add((step, load))
    for told in findings(measured.cases):
        for variant, places in told.places.items():
            for here in (bounds[variant, at] for at in places if (variant, at) in bounds):
                claim = OF_STEP.get(told.rule), OF_LOAD.get(told.rule)
                assert any(
                    claim[0] in (None, step) and claim[1] in (None, load) for step, load in here
                ), told
    found = {told.rule: told.places for told in findings(measured.cases)}
    for variant, places in found.get("front-end-is-the-limit", {}).items():
        for rule in OF_ENGINE & found.keys():
            assert not {*places} & {*found[rule].get(variant, ())}, (rule, variant)
    proven = {
        (row.variant, row.workload, row.load_point, row.metric): row.verdict
        for row in measured.judgement.verdicts.itertuples()
    }
    for decision in measured.decisions:
        place = decision.row["workload"], decision.row["load_point"], decision.metric.name
        for verdict in ("faster", "slower", "indistinguishable"):
            assert all(proven[variant, *place] == verdict for variant in decision.having(verdict))
    if measured.plan.repeats == 1:
        assert not any(
            word in said for _, said in sentences(measured) for word in ("faster", "is the fastest")
        )
