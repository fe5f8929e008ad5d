import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from servetune.cli import app
from servetune.predict.recorded import read_loads
from servetune.study.study import read_study
from tests.paths import GALLERY

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def in_the_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GALLERY)


def predict(*words: str) -> Result:
    return CliRunner().invoke(app, ["predict", "--study", *words], prog_name="servetune")


def test_the_table_says_predicted_and_the_error_it_had() -> None:
    done = predict("h200-granite", "--variant", "start", "--concurrency", "4,8")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "redicted" in lines[0] and "c1 and c16" in lines[0]
    assert lines[1].split()[0] == "predicted"
    assert [line.split()[0] for line in lines[2:4]] == ["4", "8"]
    assert "3 loads of start not fitted" in lines[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--variant", "strat"], "did you mean start"),
        (["--set", "max_num_seq=4"], "did you mean max_num_seqs"),
        (["--set", "max_num_seqs=few"], "whole number"),
        (["--set", "kv_cache_dtype=fp9"], "fp8"),
        (["--concurrency", "4,0"], "--concurrency 4,0"),
        (["--concurrency", "1e9"], "50,000"),
        (["--variant", "nobody"], "expected one of"),
        (["--set", "max_num_batched_tokens=1"], "vLLM refuses max_num_batched_tokens < max_num"),
        (["--users", "100"], "--slo"),
        (["--users", "100", "--slo", "ttft_p99_ms=500", "--every", "0"], "--every 0"),
        (["--slo", "fast"], "ttft_p99_ms=500"),
        (["--variant", "throttled"], "two or more"),
        (["--variant", "throttled"], "--from another variant: len-32768, len-4096, start"),
        (["--variant", "throttled", "--from", "strat"], "did you mean start"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str) -> None:
    done = predict("h200-granite", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_fp8_kv_cache_is_predicted_from_loads_of_bf16() -> None:
    """The same server with such a KV cache was measured, too."""
    words = ("h200-llama8b-varied", "--variant", "bf16", "--set", "kv_cache_dtype=fp8")
    [predicted] = predict(*words, "--concurrency", "256").output.splitlines()[2:3]
    study = read_study("h200-llama8b-varied", GALLERY)
    loads = read_loads(study, "h200-llama8b-varied", GALLERY)
    bf16, fp8 = (
        next(of.figures["output_throughput_tok_s"] for _, of in loads[name] if of.clients == 256)
        for name in ("bf16", "fp8-kv")
    )
    tok_s = float(predicted.split()[2])
    assert tok_s == pytest.approx(fp8, rel=0.05)
    assert abs(tok_s - fp8) < abs(tok_s - bf16)


def test_a_variant_is_predicted_from_the_loads_of_another_with_the_error_at_its_own() -> None:
    words = ("h200-llama8b", "--variant", "fp8-fp8-kv", "--from", "bf16", "--concurrency", "64")
    lines = predict(*words).output.splitlines()
    assert "fp8-fp8-kv" in lines[0] and "bf16" in lines[0]
    assert "6 loads of fp8-fp8-kv" in lines[-1]
    loads = read_loads(read_study("h200-llama8b", GALLERY), "h200-llama8b", GALLERY)["fp8-fp8-kv"]
    [measured] = [of.figures["output_throughput_tok_s"] for _, of in loads if of.clients == 64]
    assert float(lines[2].split()[2]) == pytest.approx(measured, rel=0.1)


@pytest.fixture
def granite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of which the study h200-granite can be changed."""
    shutil.copytree(GALLERY / "studies", tmp_path / "studies")
    for name in ("results", "params.yaml", "Snakefile"):
        (tmp_path / name).symlink_to(GALLERY / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "studies" / "h200-granite.yaml"


def declare(study: Path, variant: str) -> None:
    text = study.read_text()
    assert "\nvariants:\n" in text
    study.write_text(text.replace("\nvariants:\n", f"\nvariants:\n  new: {variant}\n"))


def test_a_variant_that_was_never_launched_is_predicted(granite: Path) -> None:
    declare(granite, "{model: granite-8b, server: {max_num_seqs: 2, enforce_eager: true}}")
    words = ("h200-granite", "--from", "start", "--concurrency", "8")
    new = predict(*words, "--variant", "new").output.splitlines()
    assert "enforce_eager" in new[1]
    assert new[-1].startswith("Error not known") and "new" in new[-1]
    alike = predict(*words, "--variant", "start", "--set", "max_num_seqs=2").output.splitlines()
    assert new[-2] == alike[-2]


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("{model: granite-8b, server: {tensor_parallel_size: 2}}", "2 GPUs, that of start on 1"),
        (
            "{model: granite-8b, speculative: {method: eagle3, model: granite-8b,"
            " num_speculative_tokens: 2}}",
            "drafts",
        ),
    ],
)
def test_what_no_load_tells_is_not_predicted(granite: Path, variant: str, said: str) -> None:
    declare(granite, variant)
    done = predict("h200-granite", "--variant", "new", "--from", "start", "--concurrency", "8")
    assert done.exit_code == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
