"""An endpoint has a verdict only where it was measured in turn, and else a sentence."""

import pandas as pd
import pytest

from servetune.analysis.in_turn import apart
from servetune.analysis.verdicts import compare, compare_revisions
from tests.unit.analysis.launch_data import make_values


def measured(order: str, minutes: dict[int, float] | None = None) -> pd.DataFrame:
    """Return values of `base`, `prod` and `ours`, by their letters in the order of measuring.

    A launch takes a minute, and the next begins a minute later, or so many minutes by its place.
    """
    names = {"b": "base", "p": "prod", "o": "ours"}
    values = make_values({"base": 10.0, "prod": 5.0, "ours": 5.0}, repeats=6, spread=0.01)
    counts: dict[str, int] = {}
    parts, at = [], pd.Timestamp("2026-11-03T10:00:00Z")
    for place, letter in enumerate(order):
        name = names[letter]
        counts[name] = counts.get(name, 0) + 1
        at += pd.Timedelta(minutes=(minutes or {}).get(place, 1.0))
        rows = values[(values["variant"] == name) & (values["repeat"] == counts[name])]
        end = at + pd.Timedelta(minutes=1)
        parts.append(rows.assign(started_at=at.isoformat(), ended_at=end.isoformat()))
        at = end
    table = pd.concat(parts, ignore_index=True)
    return table.assign(endpoint=table["variant"].map({"prod": "f"}))


def told(values: pd.DataFrame, variant: str, baseline: str = "base") -> tuple[set[str], set[str]]:
    table = compare(values, baseline, 0.03)
    rows = table[table["variant"] == variant]
    return set(rows["verdict"]), set(rows["reason"].dropna())


@pytest.mark.parametrize("order", ["bppbbp", "bpoopbbpo", "pbbppbbp", "bpbpbp"])
def test_launches_in_turn_have_a_verdict(order: str) -> None:
    assert told(measured(order), "prod") == ({"faster"}, set())


@pytest.mark.parametrize(
    ("order", "minutes", "why"),
    [
        ("bbbppp", {}, "in round 1 another one of theirs was measured between the two"),
        ("bppbbp", {1: 600.0}, "in round 1 10 hours without a measurement were between the two"),
        ("bppbbp", {1: -0.5}, "in round 1 both were measured at once"),
        ("bppbbp", {5: 45.0}, "in round 3 45 minutes without a measurement were between the two"),
    ],
)
def test_launches_that_are_not_in_turn_have_a_sentence_in_place_of_a_verdict(
    order: str, minutes: dict[int, float], why: str
) -> None:
    verdicts, (reason,) = told(measured(order, minutes), "prod")
    assert verdicts == {"none"}
    assert why in reason and reason.startswith("prod and base were not measured in turn: ")


def test_a_pause_between_rounds_and_other_launches_within_one_are_no_matter() -> None:
    assert apart(measured("bppbbp", {2: 600.0, 4: 600.0}), "base") == {}
    # Twenty launches of a third variant, a minute each and a minute apart.
    values = measured("b" + "o" * 6 + "ppbbp")
    assert apart(values, "base") == {}


def test_two_servers_of_ours_are_compared_whenever_they_were_measured() -> None:
    values = measured("bbbpppooo", {6: 6000.0})
    assert told(values, "ours") == ({"faster"}, set())
    assert told(values, "prod")[0] == {"none"}


def test_against_an_endpoint_everything_is_to_be_in_turn() -> None:
    verdicts, (reason,) = told(measured("pppooo"), "ours", baseline="prod")
    assert verdicts == {"none"} and "ours and prod were not measured in turn" in reason


def test_rounds_that_hold_one_of_both_prove_nothing() -> None:
    values = measured("bppbbppbbppb")
    of_base = (values["variant"] == "base") & (values["repeat"] <= 3)
    of_prod = (values["variant"] == "prod") & (values["repeat"] > 3)
    verdicts, (reason,) = told(values[of_base | of_prod], "prod")
    assert verdicts == {"none"} and "only 0 rounds hold both" in reason


def test_revisions_are_no_turns() -> None:
    base = measured("bppbbp")
    here = base.assign(measurement=base["measurement"] + "-again")
    table = compare_revisions(here, base, 0.03)
    of_prod = table[table["variant"] == "prod"]
    assert set(of_prod["verdict"]) == {"none"}
    assert "two revisions never are" in of_prod["reason"].iloc[0]
    assert "none" not in set(table[table["variant"] == "base"]["verdict"])
