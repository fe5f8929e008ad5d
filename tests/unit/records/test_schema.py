"""What a record says is typed: what no measurement says is refused by its file and key."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from servetune.doctor import check_files
from servetune.errors import DamagedError, printable
from servetune.files import read_model
from servetune.plan.times import times_of
from servetune.predict.bounds import bounds_of
from servetune.predict.recorded import scheduler_of
from servetune.records.consistency import inconsistencies
from servetune.records.excerpts import LoadExcerpt, SessionExcerpt
from servetune.records.measurements import MeasurementRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import SessionRecord
from servetune.report.choices import cautions, chosen, ignored
from servetune.report.provenance import commit_of, hosts_of, uuids_of, versions_of
from servetune.tables.capacity import capacities, probes
from servetune.tables.write import quantiles, turns
from tests.hostile import fields, hostile, with_value
from tests.paths import GALLERY

STUDY = GALLERY / "results" / "h200-capacity"

MODELS: dict[str, type[BaseModel]] = {
    "records": MeasurementRecord,
    "sessions": SessionRecord,
    "searches": SearchRecord,
}

REFUSED: dict[tuple[str, str], list[Any]] = {
    ("sessions", "launches.*.git.commit"): ["\nrm -rf ~\n#", ["a"], "HEAD", "A" * 40],
    ("sessions", "launches.*.started_at"): ["yesterday", "", 1, "2026-11-24"],
    ("sessions", "launches.*.stopped_at"): ["0001-01-01T00:00:00+00:00", "now"],
    ("sessions", "launches.*.host.gpus"): [["H200"], {}, "H200", [["a"]]],
    ("sessions", "launches.*.host"): [[], "vm", {"shell": "sh"}],
    ("sessions", "launches.*.host.cpu"): ["\x1b[2J", 7, None],
    ("sessions", "launches.*.versions.vllm"): ["0.26\n0.27", ["0.26"], 0.26],
    ("sessions", "launches.*.environment"): [{"a b": "c"}, {"A\nB": "c"}, ["A=1"]],
    ("sessions", "launches.*.command.*"): ["a\x00b", None, ["a"]],
    ("sessions", "launches.*.launch"): [10**30],
    ("sessions", "launches.*.model.compute"): ["source"],
    ("sessions", "hardware"): ["a\u202eb", "\x07"],
    ("sessions", "model.model"): ["../../etc"],
    ("records", "metrics.requests"): [10**30, -1, 10**400, math.nan, "many"],
    ("records", "metrics.duration_s"): [1e308, math.inf, "long"],
    ("records", "started_at"): ["yesterday", "2026-11-24T02:11:52", 0],
    ("records", "ended_at"): ["2026-02-30T00:00:00+00:00", "2026-11-24\n"],
    ("records", "quantiles.ttft_ms"): [[1.0], [], None],
    ("records", "device"): ["GPU\n", ["GPU"]],
    ("records", "definitions"): [2],
    ("records", "probe.judgements.server.binding"): ["latency", "ttft_p99_ms\n", "x" * 5000],
    ("searches", "tiers.*.binding"): ["latency", 1],
    ("searches", "slo.*"): [{}, {"latency": 1.0}, {"ttft_p99_ms": 0.0}],
    ("searches", "confidence"): [0, 1, 95],
    ("searches", "tiers.*.capacity"): [math.nan, 1e308, -1.0],
}
"""Values by the kind of a record and the field; `*` is an item, or a name."""


USED = {
    "cache_config": ("block_size", "num_gpu_blocks"),
    "compilation_config": ("cudagraph_capture_sizes", "max_cudagraph_capture_size"),
    "model_config": ("dtype", "quantization"),
    "parallel_config": ("_api_process_count", "tensor_parallel_size", "data_parallel_size"),
    "scheduler_config": ("enable_chunked_prefill", "async_scheduling"),
}
"""What is read of vLLM's configuration, which has hundreds of settings."""


def a_record(kind: str) -> bytes:
    # The last one, as a search begins with a closed loop that has no judgements.
    content = json.loads(max((STUDY / kind).glob("*.json")).read_bytes())
    for launch in content.get("launches", []):
        told = launch["server_info"].pop("vllm_config")
        kept = {name: {key: told[name][key] for key in keys} for name, keys in USED.items()}
        launch["server_info"] = {"vllm_config": kept}
        # Else the configuration is not asked for it.
        launch["server"]["tensor_parallel_size"] = None
    return json.dumps(content).encode()


def place_of(content: bytes, name: str) -> Any:
    """Return the place of a field, whose name has `*` for an item of a list or a mapping."""
    found = fields(content)
    tiers = next(iter(json.loads(content).get("tiers", {})), "")
    named = name.replace("tiers.*", f"tiers.{tiers}").replace("slo.*", f"slo.{tiers}")
    # One that this record does not have is added to it.
    return found[named][0] if named in found else tuple(named.split("."))


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(*of, value) for of, values in REFUSED.items() for value in values]
)
def test_what_no_measurement_says_is_refused_in_a_line_with_its_file_and_key(
    tmp_path: Path, kind: str, name: str, value: Any
) -> None:
    content, file = a_record(kind), tmp_path / "a.json"
    file.write_bytes(with_value(content, place_of(content, name), value))
    with pytest.raises(DamagedError) as refused:
        read_model(file, MODELS[kind])
    line = str(refused.value)
    assert line.startswith(f"{file}: damaged: ")
    assert line == printable(line)
    assert name.split(".*.")[-1].split(".")[0].removesuffix(".*") in line


def test_all_that_is_recorded_here_is_taken_and_agrees_with_itself() -> None:
    found = [each for each in check_files(GALLERY) if each and each.path.is_relative_to(GALLERY)]
    assert found == []


@pytest.mark.parametrize(
    ("burst", "longer", "said"),
    [
        (1.58, 1.0, []),
        (4.0, 1.0, ["metrics.request_throughput_rps"]),
        (1.0, 4.0, ["metrics.e2e_mean_ms"]),
    ],
)
def test_a_window_may_hold_what_waited_while_the_host_stalled_and_no_load_more_than_its_clients(
    burst: float, longer: float, said: list[str]
) -> None:
    path = next(GALLERY.glob("results/h100-llama8b/records/bf16-closed-c32-r1-*.json"))
    record = read_model(path, MeasurementRecord)
    assert record.metrics and record.metrics.throughput_window == "while full"
    throughputs = ("request_throughput_rps", "output_throughput_tok_s", "total_throughput_tok_s")
    changed = {name: burst * getattr(record.metrics, name) for name in throughputs}
    changed["e2e_mean_ms"] = longer * (record.metrics.e2e_mean_ms or 0.0)
    claimed = record.model_copy(update={"metrics": record.metrics.model_copy(update=changed)})
    of_load = ("metrics.request_throughput_rps", "metrics.e2e_mean_ms: ")
    lines = [line for line in inconsistencies(claimed) if line.startswith(of_load)]
    assert [line.partition(":")[0] for line in lines if "concurrency" in line] == said


def use(record: BaseModel, content: bytes) -> None:
    """Do what the commands do with a record."""
    match record:
        case MeasurementRecord():
            assert all(map(str.isprintable, inconsistencies(record)))
            quantiles([record]), turns([record]), probes([record])
            times_of([], [LoadExcerpt.model_validate_json(content)], [])
        case SearchRecord():
            assert all(map(str.isprintable, inconsistencies(record)))
            capacities([record], dict.fromkeys(record.measurements, A_LOAD))
        case SessionRecord():
            assert all(map(str.isprintable, inconsistencies(record)))
            of = {record.session: record}
            chosen(of), ignored(of), cautions(of), hosts_of(record.launches)
            times_of([SessionExcerpt.model_validate_json(content)], [], [])
            for each in record.launches:
                commit_of(each), versions_of(each), uuids_of(each), bounds_of(each)
                assert A_LOAD.metrics
                scheduler_of(each, A_LOAD.metrics)


A_LOAD = MeasurementRecord.model_validate_json(a_record("records"))
"""For what takes a load beside a launch or a search."""


@pytest.mark.parametrize("kind", MODELS)
def test_a_hostile_value_of_any_field_is_refused_in_a_line_or_every_command_can_use_it(
    tmp_path: Path, kind: str
) -> None:
    file, refused, used = tmp_path / "a.json", 0, 0
    for name, content in hostile(a_record(kind)):
        file.write_bytes(content)
        try:
            record = read_model(file, MODELS[kind])
        except DamagedError as error:
            assert printable(str(error)) == str(error), name
            refused += 1
            continue
        use(record, content)
        used += 1
    assert refused > 500
    assert used > 100
