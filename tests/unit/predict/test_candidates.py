"""What a tuning's candidates would do, by what was recorded of its base."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from servetune.plan.make import declare_candidates
from servetune.predict.candidates import predict_candidates
from servetune.study.engines import Speculative
from servetune.study.study import read_study
from servetune.tables.trial_results import trial_results
from tests.paths import GALLERY
from tests.recorded import plan_of

pytestmark = pytest.mark.slow


def predicted(study: str, *names: str, kept: Path | None = None) -> dict[str, float]:
    """Predict some candidates by the launch of the first round alone, the base's."""
    plan = plan_of(study)
    assert plan.tuning is not None
    of = [one for one in plan.tuning.candidates if one.name in names]
    assert len(of) == len(names)
    declared = declare_candidates(plan, read_study(study, GALLERY), GALLERY)
    return predict_candidates(plan.tuning, of, declared, plan.trials_before(2), GALLERY, kept)


def test_the_capacity_of_a_server_that_was_screened_is_predicted() -> None:
    """Its four probes told no more than that it takes 28 requests a second."""
    measured = [
        each.value
        for each in trial_results(plan_of("h100-tune"), plan_of("h100-tune").sessions, GALLERY)
        if (each.trial.candidate, each.trial.level) == ("bf16", "confirm")
    ]
    assert len(measured) == 3 and all(measured)
    mean = sum(value or 0.0 for value in measured) / 3
    assert predicted("h100-tune", "bf16")["bf16"] == pytest.approx(mean, rel=0.15)


def test_settings_move_what_is_predicted_as_they_move_the_server() -> None:
    """API servers where the front end is the limit, and the token budget, which is none.

    With drafts and four API servers, a candidate was found to serve 52 requests a second.
    """
    drafting = "128-2048-4-eagle3-7b46dd067a"
    known = predicted(
        "h100-tune",
        *("bf16", "api_server_count-4", drafting, "max_num_batched_tokens-16384"),
    )
    base = known.pop("bf16")
    assert known["api_server_count-4"] > 1.2 * base
    assert known[drafting] == pytest.approx(52, rel=0.1)
    assert known["max_num_batched_tokens-16384"] == pytest.approx(base, rel=0.05)


def test_what_was_predicted_for_a_round_is_at_hand_for_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "predicted.json"
    first = predicted("h100-tune", "bf16", kept=kept)
    capsys.readouterr()
    again = predicted("h100-tune", "bf16", "api_server_count-4", kept=kept)
    assert again["bf16"] == first["bf16"]
    (new,) = re.findall(r"candidates: (\d+)", "".join(capsys.readouterr()))
    assert int(new) == 1


def test_a_figure_of_the_load_that_decides_is_predicted() -> None:
    """The winner's was 60 % above the base's."""
    winner = "max_num_seqs-512-kv_cache_dtype-fp8-speculative-ngram-16"
    known = predicted("phi4-tune", "expt-1", winner)
    assert known["expt-1"] == pytest.approx(9700, rel=0.1)
    assert 1.3 < known[winner] / known["expt-1"] < 2.0


def test_the_gain_of_8_bits_and_a_draft_is_predicted_where_prompts_are_long() -> None:
    """From a load of the base in which almost each step reads a prompt."""
    winner = "llama-8b-fp8-fp8-32768-4-eagle3-412baf605d"
    known = predicted("h100-tune-long", "bf16", winner)
    assert known["bf16"] == pytest.approx(1025, rel=0.1)
    assert known[winner] == pytest.approx(1650, rel=0.1)


def test_a_draft_of_which_nothing_is_known_changes_nothing() -> None:
    plan = plan_of("h100-tune")
    assert plan.tuning is not None
    known = {one.name: one for one in plan.tuning.candidates}
    plain, drafting = known["api_server_count-4"], known["api_server_count-4-speculative-eagle3"]
    eagle3 = Speculative(method="eagle3", model="eagle3", num_speculative_tokens=3)
    variant = drafting.variant.model_copy(update={"speculative": eagle3})
    unknown = replace(drafting, variant=variant)
    base = plan.tuning.candidates[0]
    tuning = plan.tuning.model_copy(update={"candidates": [base, plain, unknown]})
    asked = plan.model_copy(update={"tuning": tuning})
    declared = declare_candidates(asked, read_study("h100-tune", GALLERY), GALLERY)
    told = predict_candidates(tuning, [plain, unknown], declared, plan.trials_before(2), GALLERY)
    assert told[unknown.name] == told[plain.name]


def test_nothing_is_predicted_before_the_base_was_measured() -> None:
    plan = plan_of("h100-tune")
    assert plan.tuning is not None
    declared = declare_candidates(plan, read_study("h100-tune", GALLERY), GALLERY)
    others = [session for session in plan.sessions if session.variant != "bf16"]
    assert predict_candidates(plan.tuning, plan.tuning.candidates, declared, others, GALLERY) == {}
