"""What a tuning says of its cost before it spends any."""

import pytest

from servetune.plan.make import make_plan
from servetune.plan.times import Times
from servetune.tables.rounds import outlook
from tests.project import Project

TUNE = {
    "base": "bf16",
    "maximize": "output_throughput_tok_s",
    "at": "c8",
    "budget": {"server_minutes": 60, "launches": 20},
}


@pytest.mark.parametrize(
    ("space", "usd"),
    [({"tensor_parallel_size": [1, 2, 4]}, "40.00 USD"), ({"max_num_seqs": [8, 16]}, "10.00 USD")],
)
def test_an_hour_of_the_largest_candidate_is_the_most_it_costs(
    project: Project, space: dict[str, list[int]], usd: str
) -> None:
    study = project.study("h200-llama8b")
    study |= {"price_usd_per_hour": 10, "tune": {**TUNE, "space": space}}
    study["variants"] = {"bf16": {"model": "llama-8b"}}
    project.write_study(study, "h200-llama8b")
    plan = make_plan({**project.params, "study": "h200-llama8b"}, project.root)
    assert usd in "\n".join(outlook(plan, Times(), project.root))
