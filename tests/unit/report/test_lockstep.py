"""A lockstep is told once for all load points of the same variants."""

import pandas as pd

from servetune.report.answer.view import grid
from servetune.report.lockstep import cautions
from servetune.report.ratios import gains
from servetune.report.verdicts import unseen
from tests.report_data import make_data, make_quickstart_plan


def test_load_points_of_the_same_variants_are_told_of_together() -> None:
    waves = {("text", "c4"): ["bf16"], ("text", "c8"): ["bf16"], ("text", "c16"): ["bf16", "fp8"]}
    first, second = cautions(waves)
    assert "text · c4 and c8 the clients of bf16 send" in first
    assert "text · c16 the clients of bf16 and fp8 send" in second


def test_a_ttft_of_a_wave_is_no_number_of_the_answer_also_of_a_single_launch() -> None:
    data = make_data(make_quickstart_plan(repeats=1), cards={"w8a8": {"send_crowding": 7.0}})
    table = grid(data)
    assert table is not None
    for head, *cells in zip(table.heads, *table.rows.values(), strict=True):
        figures = {cell.figure for cell in cells[1:]}
        assert (figures == {"lockstep \N{PILCROW SIGN}"}) == head.title.startswith("TTFT")
    chart = gains(data.decisions, [], data.variants)
    assert chart is not None
    assert not any("TTFT" in row["where"] for row in chart["datasets"]["rows"])
    assert any("TPOT" in row["where"] for row in chart["datasets"]["rows"])


def test_a_launch_in_lockstep_is_none_of_those_that_agree() -> None:
    launches = {"launches": [1, 3], "baseline_launches": [3, 3]}
    assert "3 launches all miss it" in unseen(
        pd.DataFrame({"verdict": ["lockstep", "faster"], **launches})
    )
