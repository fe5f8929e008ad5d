"""Pairs of questions: all first ones are asked before the second ones, in a drawn order."""

import json
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.planned import PlannedDataset
from servetune.study.datasets import PairsDataset
from servetune.workloads.datasets import read_requests, write_dataset
from tests.paths import ROOT

PAIRS = [
    {"id": f"p{i}", "category": "scope", "a": f"a{i}", "b": f"b{i}", "same_answer": i % 2 == 0}
    for i in range(20)
]


def rows(folder: Path, seed: int = 0, path: Path | None = None, **keys: Any) -> list[Any]:
    if path is None:
        path = folder / "pairs.jsonl"
        path.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    spec = PairsDataset(kind="pairs", path=path, output_tokens=8, **keys)
    out = folder / "out.jsonl"
    write_dataset(PlannedDataset(id="pairs-0123456789ab", spec=spec, seed=seed), out, folder)
    return read_requests(out)


def test_each_second_question_comes_after_all_first_ones(tmp_path: Path) -> None:
    made = rows(tmp_path)
    assert [row["class"] for row in made] == ["first"] * 20 + ["scope"] * 20
    assert {row["pair"]: row["prompt"] for row in made[:20]} == {p["id"]: p["a"] for p in PAIRS}
    labels = {row["pair"]: (row["prompt"], row["is_same"]) for row in made[20:]}
    assert labels == {pair["id"]: (pair["b"], pair["same_answer"]) for pair in PAIRS}


def test_the_order_is_the_seeds(tmp_path: Path) -> None:
    orders = [[row["pair"] for row in rows(tmp_path, seed)] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:20] != sorted(orders[0][:20]) and orders[0][:20] != orders[0][20:]


def test_some_pairs_are_drawn_whole(tmp_path: Path) -> None:
    made = rows(tmp_path, pairs=5)
    assert len(made) == 10 and {r["pair"] for r in made[:5]} == {r["pair"] for r in made[5:]}
    with pytest.raises(UserError, match="has 20 pairs, not 21"):
        rows(tmp_path, pairs=21)


def test_a_system_message_stands_before_each_question(tmp_path: Path) -> None:
    first = rows(tmp_path, system="Be short.")[0]
    assert [m["role"] for m in first["messages"]] == ["system", "user"] and "prompt" not in first


def test_all_pairs_that_come_along_are_read(tmp_path: Path) -> None:
    made = rows(tmp_path, path=ROOT / "data/prompts/pairs.jsonl")
    assert len(made) == 1200 and sum(row.get("is_same", False) for row in made) == 300


def test_a_record_that_is_no_pair_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "x", "category": "scope", "a": "?", "b": "!", "same": true}\n')
    with pytest.raises(UserError, match=r"line 1: same: unknown field"):
        rows(tmp_path, path=path)
