"""Files of other tools are read as rows of our metrics, equal to what they sum up themselves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetune.errors import UserError
from servetune.imports.read import read_results
from servetune.imports.run import Run, summary
from tests.paths import ROOT

DATA = ROOT / "tests/data/imports"
NAMES = sorted(path.name for path in DATA.iterdir() if path.suffix not in (".md", ".csv"))


def content_of(name: str) -> Any:
    text = (DATA / name).read_text()
    return yaml.safe_load(text) if name.endswith(".yaml") else json.loads(text)


def read(name: str) -> Run:
    (run,) = read_results(DATA / name)
    return run


def rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in figures.items()}


@pytest.mark.parametrize(
    "name", ["vllm-bench-0.32.json", "vllm-bench-0.32-detailed.json", "vllm-rs-0.33.json"]
)
def test_what_vllm_bench_serve_prints_is_what_the_row_says(name: str) -> None:
    theirs, figures = content_of(name), read(name).figures
    latencies = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    for ours, name in latencies.items():
        assert getattr(figures, f"{ours}_p50_ms") == theirs[f"median_{name}_ms"]
        assert getattr(figures, f"{ours}_mean_ms") == theirs[f"mean_{name}_ms"]
        assert getattr(figures, f"{ours}_p99_ms") == theirs[f"p99_{name}_ms"]
    assert figures.output_throughput_tok_s == theirs["output_throughput"]
    assert figures.total_throughput_tok_s == theirs["total_token_throughput"]
    assert figures.request_throughput_rps == theirs["request_throughput"]
    assert figures.duration_s == theirs["duration"]
    assert figures.output_tokens == theirs["total_output_tokens"]


@pytest.mark.parametrize("name", ["vllm-bench-0.32-detailed.json", "vllm-rs-0.33.json"])
def test_the_requests_of_vllm_bench_serve_have_the_statistics_that_it_prints(name: str) -> None:
    run = read(name)
    assert run.requests is not None
    own, stated = summary(run.requests), run.figures.known
    assert rounded({key: own[key] for key in own}) == rounded({key: stated[key] for key in own})
    assert run.problem is None


def test_guidellm_s_distributions_are_the_row_in_milliseconds() -> None:
    theirs, run = (
        content_of("guidellm-0.8.1.json")["benchmarks"][0]["metrics"],
        read("guidellm-0.8.1.json"),
    )
    latency = theirs["request_latency"]["successful"]
    assert run.figures.e2e_p50_ms == 1e3 * latency["percentiles"]["p50"]
    assert run.figures.e2e_mean_ms == 1e3 * latency["mean"]
    ttft = theirs["time_to_first_token_ms"]["successful"]
    assert run.figures.ttft_p99_ms == ttft["percentiles"]["p99"]
    tpot = theirs["inter_token_latency_ms"]["successful"]
    assert run.figures.tpot_p95_ms == tpot["percentiles"]["p95"]
    output = theirs["output_tokens_per_second"]["successful"]["mean"]
    assert run.figures.output_throughput_tok_s == output
    assert (run.load_point, run.completed_requests, run.failed_requests) == ("c4", 20, 0)
    assert run.figures.itl_p50_ms is None


def test_a_sample_of_guidellm_s_requests_is_no_distribution() -> None:
    assert len(content_of("guidellm-0.8.1.json")["benchmarks"][0]["requests"]["successful"]) == 1
    assert read("guidellm-0.8.1.json").requests is None


def as_version_1(report: dict[str, Any]) -> dict[str, Any]:
    """Write the report as GuideLLM 0.4 to 0.6 do."""
    report = {**report, "metadata": {"version": 1, "guidellm_version": "0.6.0"}}
    del report["config"]
    return {**report, "args": {"model": "it", "profile": "concurrent", "rate": [4.0]}}


def as_version_0_3(report: dict[str, Any]) -> dict[str, Any]:
    """Write the report as GuideLLM 0.2 and 0.3 do: without metadata, totals beside the metrics."""
    benchmark = {**report["benchmarks"][0]}
    benchmark["args"] = {"strategy": benchmark.pop("config")["strategy"]}
    metrics = {**benchmark["metrics"]}
    benchmark["request_totals"] = metrics.pop("request_totals")
    return {"benchmarks": [{**benchmark, "metrics": metrics}]}


@pytest.mark.parametrize("older", [as_version_1, as_version_0_3])
def test_older_versions_of_guidellm_give_the_same_row(
    older: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(older(content_of("guidellm-0.8.1.json"))))
    (run,) = read_results(path)
    assert run.figures == read("guidellm-0.8.1.json").figures
    assert (run.load_point, run.completed_requests) == ("c4", 20)


def test_a_sweep_of_guidellm_is_a_run_a_load_point(tmp_path: Path) -> None:
    report = content_of("guidellm-0.8.1.json")
    paced = json.loads(json.dumps(report["benchmarks"][0]))
    paced["config"]["strategy"] = {"type_": "constant", "rate": 2.5}
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({**report, "benchmarks": [*report["benchmarks"], paced]}))
    assert [run.load_point for run in read_results(path)] == ["c4", "r2.5"]


def test_aiperf_s_aggregates_are_the_row() -> None:
    theirs, run = content_of("aiperf-0.13.json"), read("aiperf-0.13.json")
    names = {
        "ttft": "time_to_first_token",
        "tpot": "inter_token_latency",
        "itl": "inter_chunk_latency",
        "e2e": "request_latency",
    }
    for ours, name in names.items():
        for statistic in ("p50", "p90", "p95", "p99"):
            assert getattr(run.figures, f"{ours}_{statistic}_ms") == theirs[name][statistic]
        assert getattr(run.figures, f"{ours}_mean_ms") == theirs[name]["avg"]
    assert run.figures.output_throughput_tok_s == theirs["output_token_throughput"]["avg"]
    assert run.figures.output_tokens == theirs["total_osl"]["avg"]
    assert (run.load_point, run.completed_requests, run.failed_requests) == ("c4", 40, 0)
    assert run.version == "0.13.0" and run.requests is None


def test_aiperf_s_csv_is_the_row_of_its_json_to_two_decimals() -> None:
    figures, rounded = read("aiperf-0.13.json").figures.known, read("aiperf-0.13.csv")
    assert rounded.figures.known == pytest.approx(figures, abs=0.00501, rel=0)
    assert (rounded.completed_requests, rounded.failed_requests) == (40, 0)
    assert rounded.load_point == "load"
    assert any("two decimals" in note for note in rounded.notes)


def test_aiperf_s_requests_are_rows_with_their_latencies() -> None:
    lines = (DATA / "aiperf-0.13.jsonl").read_text().splitlines()
    theirs = [json.loads(line)["metrics"] for line in lines]
    run = read("aiperf-0.13.jsonl")
    assert run.requests is not None and len(run.requests) == len(lines) == 3
    for column, name in {"ttft_ms": "time_to_first_token", "e2e_ms": "request_latency"}.items():
        assert list(run.requests[column]) == [row[name]["value"] for row in theirs]
    assert list(run.requests["itl_ms"]) == [row["inter_chunk_latency"]["value"] for row in theirs]
    assert run.figures.output_tokens == sum(
        row["output_sequence_length"]["value"] for row in theirs
    )
    assert run.load_point == "load"


def test_warm_up_and_failed_requests_of_aiperf_count_for_nothing(tmp_path: Path) -> None:
    records = [json.loads(line) for line in (DATA / "aiperf-0.13.jsonl").read_text().splitlines()]
    records[0]["metadata"]["benchmark_phase"] = "warmup"
    records[1]["error"] = {"code": 500, "message": "no"}
    path = tmp_path / "profile_export.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (run,) = read_results(path)
    assert (run.completed_requests, run.failed_requests) == (1, 1)
    assert run.figures.e2e_mean_ms == records[2]["metrics"]["request_latency"]["value"]


def test_inference_perf_s_seconds_are_milliseconds_of_the_row() -> None:
    theirs, run = content_of("inference-perf-stage.json"), read("inference-perf-stage.json")
    latency = theirs["successes"]["latency"]
    assert run.figures.ttft_p50_ms == 1e3 * latency["time_to_first_token"]["median"]
    assert run.figures.tpot_p99_ms == 1e3 * latency["time_per_output_token"]["p99"]
    assert run.figures.e2e_mean_ms == 1e3 * latency["request_latency"]["mean"]
    throughput = theirs["successes"]["throughput"]
    assert run.figures.output_throughput_tok_s == throughput["output_tokens_per_sec"]
    assert run.figures.request_throughput_rps == throughput["requests_per_sec"]
    assert (run.load_point, run.completed_requests, run.failed_requests) == ("r37.97", 2278, 0)


def test_llm_d_s_report_is_read_by_the_units_that_it_names() -> None:
    old, new = read("llmd-0.1.yaml"), read("llmd-0.2.yaml")
    theirs = content_of("llmd-0.1.yaml")["metrics"]
    assert theirs["latency"]["time_to_first_token"]["units"] == "ms"
    assert old.figures.ttft_p50_ms == theirs["latency"]["time_to_first_token"]["p50"]
    throughput = theirs["throughput"]["output_tokens_per_sec"]
    assert old.figures.output_throughput_tok_s == throughput
    assert old.completed_requests == 31 and old.tool.startswith("inference-perf")
    aggregate = content_of("llmd-0.2.yaml")["results"]["request_performance"]["aggregate"]
    assert aggregate["latency"]["time_to_first_token"]["units"] == "s"
    ttft = aggregate["latency"]["time_to_first_token"]
    assert new.figures.ttft_p99_ms == pytest.approx(1e3 * ttft["p99"])
    assert (
        new.figures.output_throughput_tok_s == aggregate["throughput"]["output_token_rate"]["mean"]
    )
    assert new.figures.e2e_p50_ms is None
    assert (new.completed_requests, new.load_point) == (500, "r10")


def test_zeros_for_a_run_that_nobody_answered_are_not_known(tmp_path: Path) -> None:
    result = content_of("vllm-bench-0.32.json")
    zeros = {name: 0.0 for name in result if name.endswith("_ms")}
    path = tmp_path / "failed.json"
    dead = {"completed": 0, "failed": 12, "output_throughput": 0.0}
    path.write_text(json.dumps({**result, **zeros, **dead}))
    (run,) = read_results(path)
    assert run.figures.known == {}
    assert run.problem == ("failed", "no request was answered")
    assert run.failed_requests == 12


def test_a_summary_that_its_own_requests_contradict_is_invalid(tmp_path: Path) -> None:
    result = content_of("vllm-bench-0.32-detailed.json")
    path = tmp_path / "edited.json"
    path.write_text(json.dumps({**result, "median_ttft_ms": result["median_ttft_ms"] / 2}))
    (run,) = read_results(path)
    assert run.problem is not None
    status, reason = run.problem
    assert status == "invalid" and reason.startswith("its summary says ttft_p50_ms 2.9698")


def test_results_appended_to_a_file_are_a_run_each(tmp_path: Path) -> None:
    path = tmp_path / "appended.json"
    lines = [json.dumps(content_of(f"vllm-bench-0.32{one}.json")) for one in ("", "-detailed")]
    path.write_text("\n".join(lines))
    assert [run.load_point for run in read_results(path)] == ["r20", "c2"]


def one_line_of(path: Path) -> str:
    with pytest.raises(UserError) as raised:
        read_results(path)
    line = str(raised.value)
    assert line.startswith(str(path)) and "\n" not in line
    return line


@pytest.mark.parametrize("name", NAMES)
def test_a_file_cut_anywhere_is_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    content = (DATA / name).read_bytes()
    for share in (0.1, 0.35, 0.6, 0.9):
        path = tmp_path / name
        path.write_bytes(content[: int(share * len(content))])
        if path.suffix in (".yaml", ".jsonl"):
            # What is cut off at the end of a line may be whole; all else is an error of a line.
            try:
                read_results(path)
            except UserError as error:
                assert str(error).startswith(str(path))
        else:
            assert "cut off" in one_line_of(path)


@pytest.mark.parametrize(
    "content",
    ["[]", "{}", "null", "3", '"text"', '{"benchmarks": 3}', "<html></html>", "a: b", "\x00\x01"],
)
def test_a_foreign_file_is_told_with_the_formats_that_are_known(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(content)
    line = one_line_of(path)
    assert all(tool in line for tool in ("vllm bench", "GuideLLM", "AIPerf", "inference-perf"))


def test_an_empty_file_a_folder_a_csv_and_no_file_are_one_line_each(tmp_path: Path) -> None:
    empty, table = tmp_path / "empty.json", tmp_path / "profile_export_aiperf.csv"
    empty.touch()
    table.write_text("Variant,TTFT\nbf16,1\n")
    assert "is empty" in one_line_of(empty)
    assert "a CSV that is not AIPerf's" in one_line_of(table)
    table.write_text("Metric,avg,min\nRequest Latency (ms),fast,1\n")
    assert "looks like a result of AIPerf, but" in one_line_of(table)
    assert "is a folder" in one_line_of(tmp_path)
    assert "no such file" in one_line_of(tmp_path / "none.json")


_WRONG: list[Any] = ["fast", -1, True, [], {}, float("inf"), 1e300, "12"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("vllm")])
@pytest.mark.parametrize("value", _WRONG)
def test_a_number_that_is_none_is_one_line(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(json.dumps({**content_of(name), "output_throughput": value}))
    assert "output_throughput" in one_line_of(path)


def test_lists_of_requests_of_other_lengths_are_one_line(tmp_path: Path) -> None:
    result = content_of("vllm-rs-0.33.json")
    path = tmp_path / "short.json"
    path.write_text(json.dumps({**result, "ttfts": result["ttfts"][1:]}))
    assert "vllm bench serve" in one_line_of(path)


def test_a_gap_without_end_is_one_line(tmp_path: Path) -> None:
    result = content_of("vllm-rs-0.33.json")
    result["itls"][0][0] = float("inf")
    path = tmp_path / "endless.json"
    path.write_text(json.dumps(result))
    assert "itls.0.0" in one_line_of(path)


def test_nan_is_what_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "nan.json"
    path.write_text(json.dumps({**content_of("vllm-bench-0.32.json"), "p99_ttft_ms": float("nan")}))
    (run,) = read_results(path)
    assert run.figures.ttft_p99_ms is None and run.figures.ttft_p50_ms is not None
