import pytest
from typer.testing import CliRunner, Result

from servetune.cli import app
from servetune.predict.recorded import read_loads
from servetune.study.study import read_study
from tests.paths import ROOT

pytestmark = pytest.mark.slow


def predict(*words: str) -> Result:
    return CliRunner().invoke(app, ["predict", *words], prog_name="servetune")


def test_the_table_says_predicted_and_the_error_it_had() -> None:
    done = predict("h200-granite", "--variant", "start", "--concurrency", "4,8")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "redicted" in lines[0] and "c1 and c16" in lines[0]
    assert lines[1].split()[0] == "predicted"
    assert [line.split()[0] for line in lines[2:4]] == ["4", "8"]
    assert "3 loads that were not fitted" in lines[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--variant", "strat"], "did you mean start"),
        (["--set", "max_num_seq=4"], "did you mean max_num_seqs"),
        (["--set", "max_num_seqs=few"], "whole number"),
        (["--set", "kv_cache_dtype=fp9"], "fp8"),
        (["--concurrency", "4,0"], "--concurrency 4,0"),
        (["--users", "100"], "--slo"),
        (["--slo", "fast"], "ttft_p99_ms=500"),
        (["--variant", "throttled"], "two or more"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str) -> None:
    done = predict("h200-granite", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_fp8_kv_cache_is_predicted_from_loads_of_bf16() -> None:
    """The same server with such a KV cache was measured, too."""
    words = ("h200-llama8b-varied", "--variant", "bf16", "--concurrency", "256")
    predicted = [
        float(predict(*words, "--set", f"kv_cache_dtype={dtype}").output.splitlines()[2].split()[2])
        for dtype in ("auto", "fp8")
    ]
    study = read_study("h200-llama8b-varied", ROOT)
    loads = read_loads(study, "h200-llama8b-varied", ROOT)
    measured = [
        next(of.figures["output_throughput_tok_s"] for _, of in loads[name] if of.clients == 256)
        for name in ("bf16", "fp8-kv")
    ]
    assert predicted[0] < predicted[1]
    assert predicted[1] / predicted[0] == pytest.approx(measured[1] / measured[0], rel=0.05)
