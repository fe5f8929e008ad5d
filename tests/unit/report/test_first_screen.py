"""The first screen of a study whose variants have one GPU or two, recorded on two H200s.

Its 64 clients run in lockstep, with some variants.
"""

import math
from dataclasses import replace

import pytest

from servetune.analysis.answer import Outcome
from servetune.report.answer.view import grid, sentences, wanting
from servetune.report.markdown import render_markdown
from servetune.report.measured import Measured
from servetune.report.reading import read_measured
from servetune.report.roofline.section import section as roofline
from tests.recorded import plan_of, results_of

STUDY = "h200-tensor-parallel"


@pytest.fixture(scope="module")
def measured() -> Measured:
    return read_measured(plan_of(STUDY), results_of(STUDY).parents[1])


def test_a_variant_says_how_many_gpus_it_has_where_they_differ(measured: Measured) -> None:
    table = grid(measured)
    assert table is not None and table.heads[0].title == "GPUs"
    assert {variant: cells[0].figure for variant, cells in table.rows.items()} == {
        **{"bf16": "1", "fp8": "1"},
        **{"tp2": "2", "fp8-tp2": "2"},
    }
    ((_, said),) = sentences(measured)
    assert "2 GPUs) is the fastest, against bf16 on 1 GPU." in said.replace(
        "\N{NO-BREAK SPACE}", " "
    )


def test_the_gain_for_each_gpu_is_the_gain_over_the_gpus(measured: Measured) -> None:
    table = grid(measured)
    assert table is not None
    assert len({head.group for head in table.heads[1:]}) == 1, "below the load that it is of"
    output, gain = (
        next(place for place, head in enumerate(table.heads) if name in head.title)
        for name in ("output", "output per GPU")
    )
    one, two = table.rows["fp8"], table.rows["tp2"]
    assert f"{one[output].figure} {one[output].remark}" == one[gain].remark
    assert (two[gain].figure, two[output].figure) == ("139", "1.36\N{MULTIPLICATION SIGN}")
    assert two[gain].remark.startswith("0.68\N{MULTIPLICATION SIGN} [")


def test_ttft_has_no_verdict_where_clients_run_in_lockstep(measured: Measured) -> None:
    text = render_markdown(measured)
    rows = [line for line in text.splitlines() if line.startswith("| users · c")]
    verdicts = [line.split(" | ") for line in rows if "**faster**" in line]
    assert {row[2] for row in verdicts if "c64" in row[0]} == {"lockstep \N{PILCROW SIGN}"}
    assert all("undecided" in row[2] for row in verdicts if "c64" not in row[0])
    (note,) = (line for line in text.splitlines() if line.startswith("> \N{PILCROW SIGN}"))
    assert "fp8-tp2" in note and "bf16" not in note


def test_the_ceilings_are_told_by_the_devices_of_a_server(measured: Measured) -> None:
    made = roofline(measured)
    assert made is not None and isinstance(made.words, dict)
    one, two = made.words["ceilings"]
    assert one.startswith("on 1 device 4,1") and "GB/s" in one
    assert two.startswith("on 2 devices 8,2")


def test_of_one_launch_no_number_of_further_launches_is_told_that_none_would_be() -> None:
    """The page says `one launch` there, and the terminal the same."""
    once = Outcome(1.0, "undecided", ratio=1.0, launches=1, further_launches=math.inf)
    assert wanting(once) == ""
    assert wanting(replace(once, further_launches=11)) == "takes about 12 launches"
    several = replace(once, low=0.9, high=1.1, launches=4)
    assert wanting(several) == "more than 200 launches"
