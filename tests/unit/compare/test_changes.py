"""A comparison tells what servers chose by themselves, differently on both sides."""

from typing import Any

import pandas as pd

from servetune.compare.changes import Change, resolved_changes
from servetune.compare.sides import Side
from tests.sessions_data import by_id, session


def side(**launch: Any) -> Side:
    none = pd.DataFrame()
    return Side(
        label="side",
        params={},
        study={},
        table=pd.DataFrame({"variant": ["bf16"]}),
        quantiles=none,
        sessions=by_id(session("bf16", launch)),
        capacities=none,
        quality=none,
    )


def test_a_choice_and_an_ignored_setting_that_changed_come_first() -> None:
    config = {"vllm_config": {"scheduler_config": {"max_num_seqs": 8}}}
    before = side(choices={"sampler": "FlashInfer"}, ignored=[])
    after = side(choices={"sampler": "PyTorch-native"}, ignored=["Casting"], server_info=config)
    assert resolved_changes(before, after) == [
        Change("chosen at start: sampler", "FlashInfer", "PyTorch-native"),
        Change("ignored by the server", "\N{EN DASH}", "Casting"),
    ]


def test_choices_that_one_side_does_not_know_are_no_change() -> None:
    assert resolved_changes(side(), side(choices={"sampler": "FlashInfer"}, ignored=[])) == []


def test_the_same_choices_are_no_change() -> None:
    same = side(choices={"sampler": "FlashInfer"}, ignored=["Casting"])
    assert resolved_changes(same, same) == []
