"""A way to measure is taken by default only where it is proven to change nothing."""

from typing import Any

import pandas as pd
import pytest

from servetune.analysis.host_pairs import Pair, couples_of, judge_pair, of_pair, on_all, pairs_of
from servetune.errors import UserError
from servetune.records.sessions import SessionRecord
from servetune.study.base import Neighbours
from servetune.tables.design import Design
from tests.sessions_data import session
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
    assert judge_pair(pd.concat([tpot, other]), "alone")[0] == verdict


def test_a_ttft_that_varies_leaves_sessions_alike() -> None:
    tpot = make_values({"alone": 10.0, "beside": 10.0}, spread=0.002)
    ttft = make_values({"alone": 10.0, "beside": 10.0}, spread=0.05, metric="ttft_p50_ms", seed=1)
    assert judge_pair(pd.concat([tpot, ttft]), "alone")[0] == "alike"


def design(
    neighbours: tuple[Neighbours | None, ...] = (None, None), seqs: tuple[int, ...] = (8, 8)
) -> Design:
    names = ["first", "second", "third", "fourth"][: len(neighbours)]
    return Design(
        study="pair",
        baseline=names[0],
        equivalence=0.02,
        until=None,
        variants=names,
        served={name: {"server.max_num_seqs": n} for name, n in zip(names, seqs, strict=True)},
        neighbours=dict(zip(names, neighbours, strict=True)),
        loads={},
    )


def test_what_a_study_of_two_equal_variants_is_about() -> None:
    assert couples_of(design(("none", "all"))) == ("together", [("first", "second")])
    assert couples_of(design()) == ("prepared", [("first", "second")])
    assert pairs_of(design(("all", "none")), []) == [Pair("together", "second", "first")]


def test_each_two_variants_that_differ_in_nothing_else_are_a_pair() -> None:
    four = design((None,) * 4, (8, 16, 8, 16))
    starts = {"first": False, "second": True, "third": True, "fourth": False}
    sessions = [session(name, {"prepared": is_it}) for name, is_it in starts.items()]
    pairs = [Pair("prepared", "first", "third"), Pair("prepared", "fourth", "second")]
    assert pairs_of(four, sessions) == pairs
    assert pairs_of(design((None,) * 3, (8, 16, 8)), sessions) == pairs[:1]
    with pytest.raises(UserError, match=r"of second and fourth, none .* --prepare third fourth"):
        pairs_of(four, [session("first", {}), session("third", {"prepared": True})])


def test_of_more_than_two_that_are_alike_each_is_compared_with_the_first() -> None:
    pairs = [("first", "second"), ("first", "third")]
    assert couples_of(design((None,) * 3, (8, 8, 8))) == ("prepared", pairs)
    assert couples_of(design(("none", "all", "all"), (8, 8, 8))) == ("together", pairs)
    twice_alone = design(("none", "all", "none"), (8, 8, 8))
    assert couples_of(twice_alone) == ("together", [("first", "second"), ("third", "second")])


def test_a_way_is_alike_where_all_pairs_are() -> None:
    assert on_all(["alike", "alike"]) == "alike"
    assert on_all(["alike", "undecided"]) == "undecided"
    assert on_all(["undecided", "disturbed", "alike"]) == "disturbed"


@pytest.mark.parametrize(
    "other",
    [
        design((None, "all")),
        design(seqs=(8, 16)),
        design(("none",), (8,)),
        design(("none", "all"), (8, 16)),
        design(("none", "all", None, None), (8, 8, 16, 16)),
    ],
    ids=[
        *("one without neighbours", "served otherwise", "one"),
        *("beside others and served otherwise", "of both ways"),
    ],
)
def test_a_study_of_anything_else_is_refused(other: Design) -> None:
    with pytest.raises(UserError, match=r"studies/pair\.yaml: variants: expected two"):
        couples_of(other)


def test_launches_count_as_what_their_variant_stands_for() -> None:
    """The first start of a run is a plain one, also of the variant whose starts are prepared."""
    made = make_values({"first": 10.0, "second": 10.0})

    def launched(variant: str, repeat: int) -> SessionRecord:
        ids = made[(made["variant"] == variant) & (made["repeat"] == repeat)]["measurement"]
        is_prepared = variant == "second" and repeat > 1
        told: dict[str, Any] = {"prepared": is_prepared, "measured": [*ids]}
        return session(variant, told, repeat=repeat)

    sessions = [launched(name, repeat) for name in ("first", "second") for repeat in range(1, 6)]
    (pair,) = pairs_of(design(), sessions)
    assert pair == Pair("prepared", "first", "second")
    kept = of_pair(made, pair, sessions, "pair")
    assert set(kept["session"]) == set(made["session"]) - {"second-r1"}
    third = make_values({"third": 10.0})
    both = Pair("together", "first", "second")
    assert len(of_pair(pd.concat([made, third]), both, sessions, "pair")) == len(made)


def test_a_pair_of_which_no_start_was_prepared_is_refused() -> None:
    with pytest.raises(UserError, match=r"none had prepared starts; .* --prepare second"):
        pairs_of(design(), [session("first", {}), session("second", {})])


def test_a_pair_of_which_one_has_no_valid_measurement_is_refused() -> None:
    plain = make_values({"first": 10.0})
    both = Pair("together", "first", "second")
    with pytest.raises(UserError, match=r"results/pair: no valid measurement of second"):
        of_pair(plain, both, [], "pair")
    starts = Pair("prepared", "first", "second")
    with pytest.raises(UserError, match=r"no valid measurement of second"):
        of_pair(make_values({"first": 10.0, "second": 10.0}), starts, [], "pair")
