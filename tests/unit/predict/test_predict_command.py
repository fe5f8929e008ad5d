import pytest
from typer.testing import CliRunner, Result

from servetune.cli import app

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
