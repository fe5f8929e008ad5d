import shutil
from pathlib import Path

import pytest

from servetune.predict.judged import score_fit
from servetune.predict.recorded import read_loads
from servetune.study.study import read_study
from tests.paths import GALLERY

pytestmark = pytest.mark.slow


def test_recorded_loads_tell_their_scheduler_lengths_and_arrivals() -> None:
    loads = read_loads(read_study("phi4-shape", GALLERY), "phi4-shape", GALLERY)
    (_, observed), *others = loads["expt-5"]
    assert not others
    assert (observed.scheduler.max_num_seqs, observed.scheduler.draft_tokens) == (256, 16)
    assert observed.scheduler.kv_blocks == 12288
    assert not observed.scheduler.is_async
    sent = observed.requests
    assert (sent.concurrency, len(sent.input_tokens)) == (250, 500)
    assert 219 <= sent.input_tokens.min() < sent.input_tokens.max() <= 511
    assert sent.due_s is not None
    assert len(sent.due_s) / sent.due_s[-1] == pytest.approx(50)


def test_the_throughput_of_loads_with_lengths_that_vary_is_predicted_as_it_was_measured() -> None:
    loads = read_loads(read_study("h200-cuda-graphs", GALLERY), "h200-cuda-graphs", GALLERY)
    errors = score_fit(loads["to-512"][:4]).errors
    assert all(abs(error.by_figure["output_throughput_tok_s"]) < 0.05 for error in errors)


def test_a_probe_that_was_cut_off_is_asked_and_not_fitted() -> None:
    loads = read_loads(read_study("h200-capacity", GALLERY), "h200-capacity", GALLERY)
    lightest, closed, *_, cut = loads["fp8"]
    assert cut[1].counted < len(cut[1].requests.input_tokens)
    judged = score_fit([lightest, closed, cut])
    assert judged.of == ("r20.6", "c16")
    assert [error.load_point for error in judged.errors] == ["r83.8"]


def test_loads_are_judged_by_the_limits_that_the_study_has_now() -> None:
    # They were recorded as invalid, before the study left out the rule of texts.
    loads = read_loads(read_study("h100-detokenizing", GALLERY), "h100-detokenizing", GALLERY)
    assert {record.status for record, _ in loads["words"]} == {"invalid"}
    assert [record.load_point for record, _ in loads["words"]] == ["c32", "c128", "c256"]


def test_a_load_of_a_launch_that_is_not_recorded_is_left_out() -> None:
    # The search of bf16 went on on another host, whose session record has its own launch alone.
    name = "h200-tensor-parallel-capacity"
    loads = read_loads(read_study(name, GALLERY), name, GALLERY)
    assert {record.launch for record, _ in loads["bf16"]} == {2}


def test_a_load_of_a_session_that_has_not_ended_is_left_out(tmp_path: Path) -> None:
    name = "h200-granite"
    shutil.copytree(GALLERY / "results" / name, tmp_path / "results" / name)
    (gone,) = (tmp_path / "results" / name / "sessions").glob("start-r1-*.json")
    gone.unlink()
    study = read_study(name, GALLERY)
    left = read_loads(study, name, tmp_path)
    assert "start" not in left
    assert left.keys() == read_loads(study, name, GALLERY).keys() - {"start"}


def test_light_loads_come_first() -> None:
    loads = read_loads(read_study("h200-llama8b", GALLERY), "h200-llama8b", GALLERY)
    assert [record.load_point for record, _ in loads["w8a8"]] == [
        *("c1", "c8", "c32", "c64", "c128", "c256")
    ]
