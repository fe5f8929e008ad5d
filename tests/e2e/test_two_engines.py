"""Two engines serve the same weights in one study: real vLLM and real llama.cpp."""

import json
import re
from pathlib import Path

import pytest
import yaml

from servetune.engines.environments import engine_id, read_engine
from servetune.records.measurements import MeasurementRecord
from tests.e2e.clone import Clone, make_clone
from tests.paths import ROOT

pytestmark = pytest.mark.e2e

STUDY = "two-engines"
VARIANTS = ["vllm", "llama-cpp"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Clone:
    """A clone in which the study was measured."""
    made = make_clone(tmp_path_factory.mktemp("engines") / "servetune", models)
    study = yaml.safe_load((ROOT / "studies" / f"{STUDY}.yaml").read_text())
    made.write_study(study, STUDY)
    made.choose(STUDY)
    print(made.measure())
    return made


def records(clone: Clone, variant: str) -> list[MeasurementRecord]:
    files = sorted((clone.root / "results" / STUDY / "records").glob(f"{variant}-text-*.json"))
    return [MeasurementRecord.model_validate_json(file.read_text()) for file in files]


def answers(clone: Clone, variant: str) -> dict[int, str]:
    """The texts of one client's requests, by their place in the schedule."""
    (file,) = (clone.root / "results/raw" / STUDY).glob(f"{variant}-text-c1-*/replies.jsonl")
    replies = map(json.loads, file.read_text().splitlines())
    return {reply["scheduled"]: reply["text"] for reply in replies}


def test_both_engines_are_measured(measured: Clone) -> None:
    table = measured.table(STUDY)
    assert list(table["variant"].unique()) == VARIANTS
    assert set(table["status"]) == {"ok"}, table[["variant", "reason"]].to_string()
    assert (table["output_tokens"] == 64 * table["requests"]).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_counters_of_each_engine_agree_with_its_answers(measured: Clone, variant: str) -> None:
    for record in records(measured, variant):
        card = record.card
        assert card is not None
        assert card.counters_were_read and card.prefix_cache_was_reset and not card.kept_tiers
        assert card.server_input_ratio == card.server_output_ratio == 1
        assert card.wrong_length_requests == card.answers_without_usage == 0


def test_greedy_answers_of_both_are_mostly_the_same_to_the_last_token(measured: Clone) -> None:
    """They round sums in other orders, so that a close call falls the other way now and then."""
    vllm, other = (answers(measured, variant) for variant in VARIANTS)
    assert vllm.keys() == other.keys()
    assert sum(vllm[index] == other[index] for index in vllm) >= len(vllm) / 2


@pytest.mark.usefixtures("measured")
def test_the_recorded_arguments_are_those_of_the_pinned_llama_cpp() -> None:
    built = read_engine(engine_id("llama-cpp", ROOT))
    recorded = f"xllamacpp-{built.versions['xllamacpp']}.arguments.json"
    told = json.loads((ROOT / "workflow/envs" / recorded).read_text())
    assert {name: each.model_dump() for name, each in built.arguments.items()} == told


def test_the_report_names_both_engines_and_their_versions(measured: Clone) -> None:
    report = (measured.root / "reports/summary.md").read_text()
    for name, package in (("vllm-cpu", "vllm"), ("llama-cpp", "xllamacpp")):
        built = read_engine(engine_id(name, ROOT))
        assert f"{package} {built.versions[package]}" in report
        assert engine_id(name, ROOT) in report


def test_what_llama_cpp_does_not_tell_is_not_known_and_never_passed(measured: Clone) -> None:
    table = measured.table(STUDY)
    by_vllm, by_other = (table[table["variant"] == variant] for variant in VARIANTS)
    for name in ("preemptions", "queue_time_mean_ms", "server_tpot_mean_ms"):
        assert by_vllm[name].notna().all(), name
        assert by_other[name].isna().all(), name
    for record in records(measured, "llama-cpp"):
        assert record.card and record.card.server_requests_ratio is None
    text = re.sub(r"<[^>]+>", " ", (measured.root / "reports/summary.html").read_text())
    assert re.search(r"Preemptions\s+not known", text)
