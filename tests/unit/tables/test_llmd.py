"""What is measured goes out as llm-d's benchmark report, by llm-d's own schema."""

import json
from pathlib import Path

import pytest
from llmd_benchmark_report.schema_v0_2 import BenchmarkReportV02

from servetune.deploy.escaping import as_yaml
from servetune.imports.read import read_results
from servetune.records.measurements import read_measurement
from servetune.records.sessions import read_session
from servetune.tables.llmd import benchmark_report
from tests.paths import GALLERY

STUDIES = ("h100-llama8b", "h200-tensor-parallel", "phi4-shape")


@pytest.mark.parametrize("study", STUDIES)
def test_a_recorded_measurement_is_a_report_that_reads_back_as_its_row(
    study: str, tmp_path: Path
) -> None:
    results = GALLERY / "results" / study
    paths = sorted((results / "records").glob("*.json"))
    read = 0
    for path in paths:
        record = read_measurement(path)
        ended = results / "sessions" / f"{record.session}.json"
        # A session that was interrupted keeps what it measured, and has no record of its own yet.
        if record.metrics is None or not ended.is_file():
            continue
        session = read_session(ended)
        report = benchmark_report(record, session, "unknown", "1.0")
        BenchmarkReportV02.model_validate(json.loads(json.dumps(report)))
        file = tmp_path / f"{record.measurement}.yaml"
        file.write_text(as_yaml(report))
        (run,) = read_results(file)
        ours = record.metrics.model_dump()
        theirs = run.figures.model_dump(exclude_none=True)
        assert {name: ours[name] for name in theirs} == pytest.approx(theirs, rel=1e-6)
        assert {"ttft_p50_ms", "tpot_p99_ms", "e2e_mean_ms", "output_tokens"} <= theirs.keys()
        assert run.load_point == record.load_point
        assert (run.completed_requests, run.failed_requests) == (
            *(record.metrics.completed_requests, record.metrics.failed_requests),
        )
        read += 1
    assert read


def test_a_report_names_engine_gpus_and_command() -> None:
    results = GALLERY / "results" / "h200-tensor-parallel"
    path = next(iter(sorted((results / "records").glob("tp2-*.json"))))
    record = read_measurement(path)
    session = read_session(results / "sessions" / f"{record.session}.json")
    (engine,) = benchmark_report(record, session, "random", "1.0")["scenario"]["stack"]
    told = engine["standardized"]
    assert (told["tool"], told["tool_version"]) == ("vllm", "0.26.0")
    assert told["accelerator"]["model"] == "nvidia-h200"
    assert told["accelerator"]["parallelism"]["tp"] == told["accelerator"]["count"] == 2
    assert "--tensor-parallel-size" in engine["native"]["args"]["command"]
