"""A lockstep is told once for all load points of the same variants."""

from servetune.analysis.answer import shown_in
from servetune.analysis.wording import place_of
from servetune.report.answer.view import grid
from servetune.report.lockstep import cautions
from tests.report_data import make_data, make_quickstart_plan


def test_load_points_of_the_same_variants_are_told_of_together() -> None:
    waves = {("text", "c4"): ["bf16"], ("text", "c8"): ["bf16"], ("text", "c16"): ["bf16", "fp8"]}
    first, second = cautions(waves)
    assert "text · c4 and c8 the clients of bf16 send" in first
    assert "text · c16 the clients of bf16 and fp8 send" in second


def test_a_ttft_of_a_wave_is_no_number_of_the_answer_also_of_a_single_launch() -> None:
    data = make_data(make_quickstart_plan(repeats=1))
    crowded = {place_of(each.row): ["bf16"] for each in shown_in(data.decisions)}
    vars(data)["in_lockstep"] = crowded
    table = grid(data)
    assert table is not None
    for head, *cells in zip(table.heads, *table.rows.values(), strict=True):
        figures = {cell.figure for cell in cells[1:]}
        assert (figures == {"lockstep \N{PILCROW SIGN}"}) == head.title.startswith("TTFT")
