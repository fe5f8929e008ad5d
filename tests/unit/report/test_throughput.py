"""Readers are told over which part of a load a throughput is, and where to doubt it."""

from typing import Any

import pandas as pd

from servetune.report.throughput import cautions, window_of, with_ends


def row(load_point: str = "c32", **values: Any) -> dict[str, Any]:
    load = {"concurrency": 32.0, "rate_rps": None, "workload": "text", "load_point": load_point}
    told = {"throughput_window": "while full", "throughput_is_uncertain": False}
    return {**load, "status": "ok", **told, **values}


def test_an_uncertain_throughput_is_marked_and_told_where_it_stands() -> None:
    uncertain = row("c64", throughput_window="whole load", throughput_is_uncertain=True)
    assert window_of(uncertain) == "whole load, uncertain"
    assert window_of(row()) == "while full"
    (caution,) = cautions(pd.DataFrame([row(), uncertain]))
    assert "text · c64" in caution
    assert "text · c32" not in caution


def test_an_older_closed_loop_is_told_to_cover_the_ends_of_its_load() -> None:
    older = row("c64", throughput_window="whole load", throughput_is_uncertain=None)
    (caution,) = cautions(pd.DataFrame([row(), older]))
    assert "text · c64" in caution
    assert window_of(older) == "whole load"


def test_a_table_without_the_column_is_an_older_one() -> None:
    table = pd.DataFrame([row()]).drop(columns=["throughput_window", "throughput_is_uncertain"])
    assert len(with_ends(table)) == 1


def test_only_loops_of_several_clients_have_ends() -> None:
    older = {"throughput_is_uncertain": None}
    rows = [
        row("c1", concurrency=1.0, **older),
        row("r5", concurrency=None, rate_rps=5.0, **older),
        row("c32-r5", rate_rps=5.0, **older),
        row("c32-t1", **older),
        row("c8", status="failed", **older),
    ]
    assert with_ends(pd.DataFrame(rows)) == []


def test_a_study_whose_throughputs_are_certain_says_nothing() -> None:
    assert cautions(pd.DataFrame([row()])) == []


def test_load_points_of_one_workload_name_it_once() -> None:
    older = {"throughput_window": "whole load", "throughput_is_uncertain": None}
    (caution,) = cautions(pd.DataFrame([row("c8", **older), row("c32", **older), row("c8")]))
    assert "text · c8 and c32 " in caution
