"""The report of a tuning: its race, its failures by kind, and how its winner is run."""

import math
from dataclasses import replace
from io import StringIO
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from servetune.analysis.tuning.answer import Answer, answer
from servetune.analysis.tuning.effects import Effect
from servetune.analysis.tuning.names import labels
from servetune.numbers import NONE, number
from servetune.plan.planned import Tuning
from servetune.records.trials import Elimination, Round, Trial, TrialResult
from servetune.report.answer.front import front
from servetune.report.answer.race import (
    effects,
    expectations,
    failures,
    race,
    unknown_effects,
    untried,
    value_of,
)
from servetune.report.answer.standings import Standing, standings
from servetune.report.table import Name
from servetune.report.terminal import render_terminal
from servetune.study.space import Candidate, candidates
from tests.report_data import make_data
from tests.unit.tune.tunings import capacity_of, run, study_with


def half_fits(values: Any) -> float | None:
    """The tuned server, of which large batches do not fit into memory."""
    is_large = (values["max_num_batched_tokens"] or 0) > 1024
    return None if is_large else capacity_of(values)


@pytest.fixture(scope="module")
def tuned() -> tuple[Tuning, list[TrialResult], Answer]:
    study = study_with()
    assert study.tune is not None
    rounds, seen = run(study, half_fits)
    of = candidates(study.tune, study)
    tuning = Tuning(
        declared="", tune=study.tune, place=study.tuned_at, candidates=of, rounds=rounds
    )
    return tuning, seen, answer(study.tune, of, seen, rounds)


def test_those_that_were_confirmed_lead_and_those_without_a_value_come_last(
    tuned: tuple[Tuning, list[TrialResult], Answer],
) -> None:
    tuning, seen, answered = tuned
    table = race(tuning, standings(tuning, seen), answered)
    levels = [row[2] for row in table.rows]
    assert levels[0] == "confirmed"
    assert len(table.rows) == len({each.trial.candidate for each in seen})
    values = [getattr(row[1], "text", row[1]) for row in table.rows]
    failed = values.index("does not fit")
    assert set(values[failed:]) == {"does not fit"}
    assert failures(standings(tuning, seen)).endswith(f"(does not fit: {len(values) - failed}).")


def test_what_was_expected_is_held_against_what_was_found() -> None:
    study = study_with()
    assert study.tune is not None
    names = candidates(study.tune, study)[:3]
    first, second, third = (each.name for each in names)
    of = [
        TrialResult(Trial(first, "screen"), 60.0, 20.0, 19.0, 21.0),
        TrialResult(Trial(second, "screen"), 60.0, 30.0, 29.0, 31.0),
        TrialResult(Trial(third, "screen"), 60.0, failure="does not fit"),
    ]
    trials = tuple(each.trial for each in of)
    rounds = [Round(1, trials, first, None, (), {first: 22.0, second: 45.0, third: 30.0})]
    tuning = Tuning(
        declared="", tune=study.tune, place=study.tuned_at, candidates=names, rounds=rounds
    )
    said = expectations(tuning, standings(tuning, of))
    assert "is 1.30\N{MULTIPLICATION SIGN} what was found" in said
    assert "1.10\N{MULTIPLICATION SIGN} to 1.50\N{MULTIPLICATION SIGN}, 2 candidates" in said
    assert expectations(tuning, []) == ""


def test_a_candidate_with_a_value_tells_its_invalid_launches() -> None:
    of = [
        TrialResult(Trial("plain", "screen"), 60.0, 20.0, 19.0, 21.0),
        TrialResult(Trial("plain", "confirm"), 60.0, failure="invalid"),
    ]
    study = study_with()
    assert study.tune is not None
    names = candidates(study.tune, study)
    tuning = Tuning(declared="", tune=study.tune, place=study.tuned_at, candidates=names, rounds=[])
    found = standings(tuning, of)
    table = race(tuning, found, answer(study.tune, names, of, []))
    assert table.rows[0][3] == "2 (1 invalid)"
    assert failures(found) == ""


def test_the_values_of_the_race_have_the_ratio_that_the_answer_tells(
    tuned: tuple[Tuning, list[TrialResult], Answer],
) -> None:
    tuning, seen, answered = tuned
    known = {of.name: of.best_known for of in standings(tuning, seen)}
    assert answered.winner and answered.ratio
    of, base = known[answered.winner], known[tuning.candidates[0].name]
    assert of.value and base.value
    assert of.value / base.value == pytest.approx(answered.ratio.value)
    lone = [each for each in seen if each.trial == replace(of.trial, repeat=1)]
    widths = [math.log(each.upper / each.lower) for each in (of, *lone)]
    assert widths[0] == pytest.approx(widths[1] / math.sqrt(3))


def test_a_capacity_of_two_launches_of_which_one_has_no_upper_end_has_none() -> None:
    of = [
        TrialResult(Trial("plain", "confirm", repeat), 60.0, 20.0, 18.0, upper)
        for repeat, upper in enumerate((22.0, math.inf), 1)
    ]
    assert value_of(Standing("plain", of).best_known) == "at least 18.0"


def test_a_candidate_that_did_not_leave_says_what_became_of_it(
    tuned: tuple[Tuning, list[TrialResult], Answer],
) -> None:
    tuning, seen, answered = tuned
    found = standings(tuning, seen)
    rows = race(tuning, found, answered).rows
    became = {str(row[0]): getattr(row[-1], "text", "") for row in rows}
    assert all(became.values())
    base, left = tuning.candidates[0].name, {each.candidate for each in answered.left}
    named = {of.name: became[str(Name(of.name))] for of in found}
    assert named[base] == "the base"
    assert [name for name in named if named[name] == "the answer"] == [answered.winner]
    stayed = {name for name in named if "not proven worse" in str(named[name])}
    assert not stayed & left
    assert stayed | left | {base, answered.winner} >= named.keys()


def test_what_was_expected_is_told_as_it_was_before_a_candidate_was_launched(
    tuned: tuple[Tuning, list[TrialResult], Answer],
) -> None:
    tuning, seen, answered = tuned
    base, first = tuning.candidates[0].name, tuning.rounds[1]
    rows = race(tuning, standings(tuning, seen), answered).rows
    told = {str(row[0]): row[5] for row in rows}
    assert told[str(Name(base))] == NONE
    for trial in first.trials:
        assert told[str(Name(trial.candidate))] == number(first.expected[trial.candidate])


def test_the_best_measured_is_ahead_also_in_the_middle_of_a_round() -> None:
    study = study_with()
    assert study.tune is not None
    names = candidates(study.tune, study)
    base, other = names[0].name, names[1].name
    of = [
        TrialResult(Trial(base, "screen"), 60.0, 20.0, 19.0, 21.0),
        TrialResult(Trial(other, "screen"), 60.0, 30.0, 29.0, 31.0),
    ]
    running = [Round(2, (Trial(other, "screen"),), incumbent=base)]
    told = answer(study.tune, names, of, running)
    assert f"{told.labels[other]} is ahead" in told.sentence and not told.is_over


def test_candidates_that_left_without_a_launch_are_counted_by_reason() -> None:
    reasons = {"a": "x", "b": "y", "c": "x", "d": "z", "e": "w"}
    left = tuple(Elimination(name, 2, reason) for name, reason in reasons.items())
    tried = Standing("e", [TrialResult(Trial("e", "screen"), 1.0, failure="refused")])
    told = untried(Answer("", None, (), 1, left, (), is_over=False), [tried])
    assert told.startswith("4 candidates") and "x (2), y (1) and z (1)" in told


def test_the_end_of_a_run_begins_with_the_answer(
    tuned: tuple[Tuning, list[TrialResult], Answer],
) -> None:
    tuning, seen, answered = tuned
    data = make_data()
    plan = data.plan.model_copy(update={"tuning": tuning})
    console = Console(record=True, width=80, file=StringIO())
    console.print(render_terminal(replace(data, plan=plan, seen=seen)))
    shown = console.export_text()
    assert answered.winner and answered.ratio
    assert f"{answered.ratio.value:.2f}\N{MULTIPLICATION SIGN} [" in shown.partition("status")[0]


def test_effects_that_are_not_known_have_no_row_and_are_named_once() -> None:
    told = (
        Effect("max_num_seqs", 4, 0),
        Effect("max_num_seqs", 8, 5, 1.2, 1.1, 1.31),
        Effect("max_num_seqs", 16, 1),
        Effect("kv_cache_dtype", None, 0),
    )
    found = Answer("", None, (), 5, (), told, is_over=True)
    table = effects(found)
    assert table is not None
    (row,) = table.rows
    assert row == ["max_num_seqs", "8", "5", "1.20\N{MULTIPLICATION SIGN} [1.10, 1.31]"]
    assert unknown_effects(found) == (
        "Too few candidates tell the effect of max_num_seqs (4, 16) and kv_cache_dtype (default)."
    )
    assert effects(Answer("", None, (), 5, (), told[:1], is_over=True)) is None


def test_the_front_holds_what_no_other_candidate_beats_in_throughput_and_ttft() -> None:
    point = {"maximize": "output_throughput_tok_s", "at": "c8"}
    study = study_with(**point)
    assert study.tune is not None
    tuning = Tuning(declared="", tune=study.tune, place=("chat", "c8"), candidates=[], rounds=[])
    values = {"slow": (100.0, 20.0), "fast": (200.0, 50.0), "worse": (150.0, 60.0)}
    told = [TrialResult(Trial(n, "screen"), 60.0, v, v, v) for n, (v, _) in values.items()]
    at = {"workload": "chat-screen", "load_point": "c8", "status": "ok", "probe": None}
    cost = {"cost_usd_per_million_output_tokens": None}
    rows = [{**at, **cost, "variant": n, "ttft_p50_ms": ms} for n, (_, ms) in values.items()]
    table = front(tuning, standings(tuning, told), pd.DataFrame(rows))
    assert table is not None
    assert [row[0] for row in table.rows] == [Name("fast"), Name("slow")]
    assert [row[2] for row in table.rows] == ["50.0", "20.0"]
    assert table.heads[-1] == "Best known as" and len(table.heads) == 4


def test_beside_a_capacity_stands_the_probe_nearest_to_it() -> None:
    study = study_with()
    assert study.tune is not None
    tuning = Tuning(declared="", tune=study.tune, place=study.tuned_at, candidates=[], rounds=[])
    told = [TrialResult(Trial("plain", "confirm"), 60.0, 10.0, 9.0, 11.0)]
    # The first is the closed loop that a search for a rate begins with.
    probes = [(None, 900.0), (3.0, 20.0), (9.5, 50.0), (14.0, 400.0)]
    at = {"workload": "chat", "status": "ok", "variant": "plain", "concurrency": 10}
    cost = {"cost_usd_per_million_output_tokens": 2.0}
    rows = [{**at, **cost, "probe": 1, "rate_rps": r, "ttft_p50_ms": ms} for r, ms in probes]
    table = front(tuning, standings(tuning, told), pd.DataFrame(rows))
    assert table is not None
    assert table.rows[0][2:] == ["50.0", "2.00", "confirmed"]


def test_what_was_screened_once_takes_no_place_of_what_was_confirmed() -> None:
    study = study_with(maximize="output_throughput_tok_s", at="c8")
    assert study.tune is not None
    tuning = Tuning(declared="", tune=study.tune, place=("chat", "c8"), candidates=[], rounds=[])
    told = [TrialResult(Trial("lucky", "screen"), 60.0, 210.0, 210.0, 210.0)]
    told += [TrialResult(Trial("won", "confirm", i), 60.0, 200.0, 200.0, 200.0) for i in (1, 2)]
    of = {"load_point": "c8", "status": "ok", "probe": None}
    of |= {"cost_usd_per_million_output_tokens": None}
    rows: list[dict[str, Any]] = [
        {**of, "variant": "lucky", "workload": "chat-screen", "ttft_p50_ms": 20.0},
        {**of, "variant": "won", "workload": "chat", "ttft_p50_ms": 25.0},
        {**of, "variant": "won", "workload": "chat", "ttft_p50_ms": 36.0},
    ]
    table = front(tuning, standings(tuning, told), pd.DataFrame(rows), "won")
    assert table is not None
    assert {row[0]: (row[2], row[3]) for row in table.rows} == {
        Name("lucky"): ("20.0", "screened"),
        # The mean of its launches, as its throughput is.
        Name("won"): ("30.0", "confirmed"),
    }


def test_a_candidate_is_called_by_what_differs_from_the_base() -> None:
    space: dict[str, list[Any]] = {
        "model": ["llama-8b", "llama-8b-fp8"],
        "kv_cache_dtype": ["auto", "fp8"],
        "max_num_seqs": [4, 256],
        "max_num_batched_tokens": [2048, 16384],
        "enable_prefix_caching": [True, False],
    }
    values: list[dict[str, Any]] = [{name: of[at] for name, of in space.items()} for at in (0, -1)]
    variant = make_quickstart_variant()
    told = labels([Candidate(f"n{i}", of, variant) for i, of in enumerate(values)])
    dot = " \N{MIDDLE DOT} "
    assert told == {
        "n0": "n0",
        "n1": dot.join(["fp8", "kv fp8", "256 seqs", "16k tokens", "no prefix caching"]),
    }


def test_candidates_that_would_be_called_alike_keep_their_names() -> None:
    variant = make_quickstart_variant()
    values: list[dict[str, Any]] = [{"model": "a", "x": 1}, {"model": "a", "x": "2"}]
    of = [
        Candidate(f"n{i}", each, variant) for i, each in enumerate([*values, {**values[0], "x": 2}])
    ]
    assert labels(of) == {"n0": "n0", "n1": "n1", "n2": "n2"}


def make_quickstart_variant() -> Any:
    return study_with().variants["plain"]
