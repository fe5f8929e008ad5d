"""Sessions run beside each other only where that is proven to change nothing."""

import pandas as pd
import pytest

from servetune.analysis.together import judge_together
from tests.unit.analysis.launch_data import make_values


@pytest.mark.parametrize(
    ("beside", "ttft", "spread", "verdict"),
    [
        (10.0, 10.0, 0.002, "alike"),
        (10.0, 13.0, 0.002, "disturbed"),
        (11.0, 10.0, 0.002, "disturbed"),
        (10.0, 10.0, 0.03, "undecided"),
    ],
)
def test_a_host_is_judged_by_launches_alone_and_beside(
    beside: float, ttft: float, spread: float, verdict: str
) -> None:
    tpot = make_values({"alone": 10.0, "beside": beside}, spread=spread)
    other = make_values({"alone": 10.0, "beside": ttft}, spread=spread, metric="ttft_p50_ms")
    assert judge_together(pd.concat([tpot, other]), "alone")[0] == verdict


def test_a_ttft_that_varies_leaves_sessions_alike() -> None:
    tpot = make_values({"alone": 10.0, "beside": 10.0}, spread=0.002)
    ttft = make_values({"alone": 10.0, "beside": 10.0}, spread=0.05, metric="ttft_p50_ms", seed=1)
    assert judge_together(pd.concat([tpot, ttft]), "alone")[0] == "alike"
