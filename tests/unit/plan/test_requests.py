"""What a plan says of a dataset's requests before it is made."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.estimate import estimate
from servetune.plan.listing import lines
from servetune.plan.make import make_plan, plan_to_measure
from servetune.plan.times import Times
from tests.project import Project

TRACE = {"kind": "mooncake", "path": "trace.jsonl"}


def write_trace(project: Project, count: int, step: float, **line: Any) -> None:
    """Write a trace in which a request comes every `step`, of a time's unit."""
    written = {"input_length": 600, "output_length": 8, "hash_ids": [1, 2], **line}
    text = "".join(json.dumps({"timestamp": i * step, **written}) + "\n" for i in range(count))
    (project.root / "trace.jsonl").write_text(text)


def replay(project: Project, dataset: dict[str, Any], **point: Any) -> None:
    """Let the study replay a dataset, and send nothing else."""
    study = project.study()
    study["datasets"]["trace"] = dataset
    study["workloads"] = {
        "replay": {
            "dataset": "trace",
            "arrivals": "trace",
            "load_points": [{"time_scale": 1, **point}],
        }
    }
    study["server"]["max_model_len"] = 2048
    study.pop("quality", None)
    project.write_study(study)


def planned(project: Project) -> list[str]:
    plan = make_plan(project.params, project.root)
    return list(lines(estimate(plan, Times(), ())))


def refused(project: Project) -> str:
    with pytest.raises(UserError) as caught:
        plan_to_measure(project.params, project.root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_class_that_a_line_names_is_one_of_the_workloads(project: Project) -> None:
    line = {"prompt": "Hello", "output_tokens": 8}
    lines_ = [{**line, "class": "plain"}, {"turns": [{**line, "class": "jsn"}]}]
    (project.root / "own.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines_))
    study = project.study()
    study["datasets"]["own"] = {"kind": "file", "path": "own.jsonl"}
    study["workloads"] = {
        "own": {"dataset": "own", "load_points": [{"concurrency": 1, "requests": 2}]}
    }
    # Without classes they are names alone, for the rows of the table.
    project.write_study(study)
    make_plan(project.params, project.root)
    study["workloads"]["own"]["classes"] = {"plain": {}, "json": {}}
    project.write_study(study)
    told = "workloads.own.classes: own has requests of the class jsn; expected one of plain, json"
    assert f"{told}; did you mean json?" in refused(project)


def test_a_trace_takes_as_long_as_it_is_and_is_told_with_its_unit(project: Project) -> None:
    write_trace(project, 1201, 3000)
    replay(project, TRACE, requests=1201)
    told = planned(project)
    assert (
        "  Trace trace: 1,201 requests in 3,600 s, 0.334 requests per second, timestamps in ms,"
        " 720,600 prompt tokens"
    ) in told
    assert any("replay t1: to measure, about 60 min" in line for line in told), told


def test_a_part_of_a_trace_takes_a_part_of_its_time(project: Project) -> None:
    write_trace(project, 1201, 3000)
    replay(project, TRACE, requests=400, time_scale=0.1)
    assert any("replay t0.1: to measure, about 2 min" in line for line in planned(project))


@pytest.mark.parametrize("step", [0.5, 2_000_000], ids=["of seconds", "of microseconds"])
def test_the_unit_of_a_trace_is_asked_for_where_its_pace_is_implausible(
    project: Project, step: float
) -> None:
    write_trace(project, 40, step)
    replay(project, TRACE, requests=40)
    line = refused(project)
    assert "datasets.trace.path: trace.jsonl: 40 lines in " in line
    assert line.endswith("write the unit that they have as time_unit: s, ms, us, ns")
    replay(project, {**TRACE, "time_unit": "ms"}, requests=40)
    assert planned(project)


def test_a_unit_that_is_written_out_is_the_same_dataset_as_the_default(project: Project) -> None:
    write_trace(project, 40, 500)
    ids = []
    for dataset in (TRACE, {**TRACE, "time_unit": "ms"}, {**TRACE, "time_unit": "s"}):
        replay(project, dataset, requests=40)
        ids.append({m.id for m in make_plan(project.params, project.root).measurements})
    assert ids[0] == ids[1] != ids[2]


def test_blocks_of_another_size_are_refused_before_anything_starts(project: Project) -> None:
    write_trace(project, 3, 900, input_length=100, hash_ids=[1, 2, 3, 11, 12, 13, 14])
    replay(project, TRACE, requests=3)
    assert "datasets.trace.path: trace.jsonl: line 1: 7 hash_ids for 100 tokens" in refused(project)


@pytest.mark.parametrize(("more", "asked"), [({}, 41), ({"settle_requests": 2}, 42)])
def test_more_requests_than_a_trace_has_are_refused(
    project: Project, more: dict[str, int], asked: int
) -> None:
    write_trace(project, 40, 500)
    replay(project, TRACE, requests=asked - more.get("settle_requests", 0))
    study = project.study()
    study["workloads"]["replay"] |= more
    project.write_study(study)
    assert f"workloads.replay.load_points.0: asks for {asked} requests, but trace has 40" in (
        refused(project)
    )


def test_a_load_that_ends_by_its_duration_may_ask_for_more(project: Project) -> None:
    write_trace(project, 40, 500)
    replay(project, TRACE, requests=41, duration_s=10)
    assert planned(project)


def test_a_file_with_times_is_a_trace_too(project: Project) -> None:
    rows = [{"prompt": "Hi", "output_tokens": 4, "arrival_s": 30.0 * i} for i in range(11)]
    (project.root / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay(project, {"kind": "file", "path": "own.jsonl"}, requests=11)
    told = planned(project)
    assert "  Trace trace: 11 requests in 300 s, 0.0367 requests per second" in told


Edit = Callable[[dict[str, Any]], object]
RANDOM = {"kind": "random", "requests": 8, "input_tokens": 2000, "output_tokens": 8}


def send(project: Project, dataset: dict[str, Any], most: Any, **workload: Any) -> None:
    study = project.study()
    study["datasets"]["long"] = dataset
    study["workloads"] = {
        "long": {
            "dataset": "long",
            "load_points": [{"concurrency": 2, "requests": 8}],
            **workload,
        }
    }
    study["server"]["max_model_len"] = most
    project.write_study(study)


@pytest.mark.parametrize(
    ("dataset", "sizes"),
    [
        (RANDOM, "2,000 tokens and an answer of 8"),
        (
            {**RANDOM, "input_tokens": {"min": 8, "max": 300},
             "shared_prefix": {"count": 2, "tokens": 300}},
            "600 tokens and an answer of 8",
        ),
        ({"kind": "text", "requests": 8, "input_words": 8, "output_tokens": 512},
         "1 tokens and an answer of 512"),
        (TRACE, "600 tokens and an answer of 8"),
    ],
)  # fmt: skip
def test_a_request_that_no_server_of_the_study_takes_is_refused(
    project: Project, dataset: dict[str, Any], sizes: str
) -> None:
    write_trace(project, 8, 900)
    send(project, dataset, 512)
    assert refused(project).startswith(
        f"studies/quickstart.yaml: workloads.long: a request of long has {sizes},"
        " but max_model_len of bf16 is 512; raise it to "
    )


@pytest.mark.parametrize(
    ("dataset", "workload"),
    [
        (RANDOM, {"max_input_tokens": 504}),
        (RANDOM, {"max_input_tokens": 504, "over_length": "truncate"}),
        (TRACE, {"max_input_tokens": 400}),
        ({**RANDOM, "input_tokens": 504}, {}),
    ],
)
def test_a_request_that_fits_or_is_left_out_passes(
    project: Project, dataset: dict[str, Any], workload: dict[str, Any]
) -> None:
    write_trace(project, 8, 900)
    send(project, dataset, 512, **workload)
    make_plan(project.params, project.root)


def test_only_the_variants_that_get_a_request_have_to_take_it(project: Project) -> None:
    send(project, RANDOM, 4096)
    make_plan(project.params, project.root)
    with pytest.raises(UserError, match="max_model_len of bf16 is 512"):
        make_plan({**project.params, "max_model_len": 512}, project.root)
    study = project.study()
    study["variants"]["w8a8"]["server"] = {"max_model_len": 1024}
    project.write_study(study)
    assert "max_model_len of w8a8 is 1,024" in refused(project)


def write_rows(project: Project, *rows: Any) -> None:
    (project.root / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


OWN = {"kind": "file", "path": "own.jsonl", "output_tokens": 8}
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def test_a_packed_trace_is_as_long_as_the_plain_one(project: Project) -> None:
    write_trace(project, 1201, 3000)
    packed = gzip.compress((project.root / "trace.jsonl").read_bytes())
    (project.root / "trace.jsonl.gz").write_bytes(packed)
    replay(project, {**TRACE, "path": "trace.jsonl.gz"}, requests=1201)
    assert any("1,201 requests in 3,600 s" in line for line in planned(project))


def test_a_session_is_as_long_as_its_last_prompt_and_answer(project: Project) -> None:
    write_trace(project, 1, 0, session_id="a")
    later = {"session_id": "a", "delay": 5, "input_length": 300, "output_length": 9}
    with (project.root / "trace.jsonl").open("a") as file:
        file.write(json.dumps(later) + "\n")
    send(project, TRACE, 2048, generator="vllm-bench")
    assert refused(project).endswith("leave generator out: servetune can")
    send(project, TRACE, 512)
    assert "a request of long has 908 tokens and an answer of 9," in refused(project)


@pytest.mark.parametrize(
    "row",
    [
        CHAT,
        {"turns": [CHAT]},
        {"turns": ["Hi", {"prompt": "So", "after": []}]},
    ],
)
def test_what_only_servetune_sends_is_refused_for_others_with_its_name(
    project: Project, row: Any
) -> None:
    write_rows(project, row)
    send(project, OWN, 512, generator="vllm-bench")
    line = refused(project)
    assert "workloads.long.generator: vllm-bench cannot send " in line
    assert line.endswith("servetune can")
    send(project, OWN, 512)
    plan = make_plan(project.params, project.root)
    assert {m.load.endpoint for m in plan.measurements} == {"chat"}


def test_times_in_a_list_are_a_trace(project: Project) -> None:
    rows = [{"prompt": "Hi", "output_tokens": 4, "arrival_s": 30.0 * i} for i in range(11)]
    (project.root / "own.jsonl").write_text(json.dumps(rows, indent=1))
    replay(project, OWN, requests=11)
    assert any("11 requests in 300 s" in line for line in planned(project))


def test_a_burst_is_a_trace_in_seconds(project: Project) -> None:
    rows = "".join(f"{30 * i},GPT-4,100,8,108,API log\n" for i in range(11))
    header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    (project.root / "burst.csv").write_text(header + rows)
    replay(project, {"kind": "burstgpt", "path": "burst.csv"}, requests=11)
    assert any("11 requests in 300 s" in line for line in planned(project))
    replay(project, {"kind": "burstgpt", "path": "burst.csv"}, requests=12)
    assert "asks for 12 requests, but trace has 11" in refused(project)


def test_a_wrong_record_is_named_with_the_dataset_before_anything_starts(project: Project) -> None:
    write_rows(project, {"session_id": "a", "turns": [{**CHAT, "temperature": 1}]})
    send(project, {"kind": "agents", "path": "own.jsonl", "output_tokens": 8}, 512)
    assert "datasets.long.path: own.jsonl: line 1: turns.0.temperature: unknown" in refused(project)
