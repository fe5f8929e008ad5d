"""Steps that no CUDA graph holds are told, with the sizes that vLLM captures."""

import copy
import json
from dataclasses import replace

import pytest

from servetune.analysis.findings.busy import DISTURBING
from servetune.analysis.findings.gather import Case, find
from tests.sessions_data import launch
from tests.unit.analysis.findings.recorded import recorded_cases

SIZES = [1, 2, 4, 8, 16, 24, 32, 40, 48, 56]
FULL_AND_PIECEWISE, PIECEWISE = [2, 1], 1


def case(running: float, max_num_seqs: int, mode: object, drafts: int | None = None) -> Case:
    config = {"cudagraph_mode": mode, "cudagraph_capture_sizes": SIZES}
    info = {"vllm_config": {"compilation_config": config}}
    row = {
        "status": "ok",
        "variant": "a",
        "workload": "w",
        "load_point": "c",
        "concurrency": running,
    }
    row |= {"running_mean": running, "running_max": running, "max_num_seqs": max_num_seqs}
    return Case({**row, "num_speculative_tokens": drafts}, launch=launch(server_info=info))


def told(case: Case) -> str | None:
    finding = find(case).get("batch-beyond-full-graphs")
    return finding.attempts[0] if finding else None


@pytest.mark.parametrize(
    ("running", "max_num_seqs", "drafts", "names"),
    [
        (26.3, 28, None, ("24", "32")),  # vLLM captures 24, and 32 only if so many may run
        (60.0, 1024, None, ("max_cudagraph_capture_size", "60")),
        (20.0, 1024, 3, ("max_cudagraph_capture_size", "80")),  # of 4 tokens each, 56 are 14
    ],
)
def test_a_batch_beyond_the_full_graphs_is_told_with_what_to_set(
    running: float, max_num_seqs: int, drafts: int | None, names: tuple[str, ...]
) -> None:
    attempt = told(case(running, max_num_seqs, FULL_AND_PIECEWISE, drafts))
    assert attempt and all(name in attempt for name in names)


@pytest.mark.parametrize(
    ("running", "max_num_seqs", "mode", "drafts"),
    [
        (24.0, 28, FULL_AND_PIECEWISE, None),
        (32.0, 32, FULL_AND_PIECEWISE, None),
        (14.0, 1024, FULL_AND_PIECEWISE, 3),
        (26.3, 28, PIECEWISE, None),  # attention is in no graph, whatever the batch
        (26.3, 28, 0, None),
        (26.3, 28, None, None),
    ],
)
def test_a_batch_that_a_graph_holds_or_a_server_without_full_graphs_is_not_told(
    running: float, max_num_seqs: int, mode: object, drafts: int | None
) -> None:
    assert told(case(running, max_num_seqs, mode, drafts)) is None


def test_a_server_whose_launch_is_not_known_has_no_such_finding() -> None:
    assert told(Case(case(26.3, 28, FULL_AND_PIECEWISE).row)) is None


def is_told(case: Case) -> bool:
    return "prompts-beyond-graphs" in find(case)


def test_slow_steps_with_prompts_that_no_graph_holds_are_told_and_none_that_one_holds() -> None:
    told = {
        (case.row["variant"], case.row["load_point"], case.row["repeat"])
        for case in recorded_cases("h200-cuda-graphs")
        if is_told(case)
    }
    assert told == {("to-512", at, repeat) for at in ("c32", "c64") for repeat in (1, 2, 3)}


@pytest.mark.parametrize("study", ["h200-granite", "h200-llama8b-graphs"])
def test_steps_with_prompts_that_are_as_fast_as_those_in_graphs_are_not_told(study: str) -> None:
    assert not any(map(is_told, recorded_cases(study)))


def test_steps_that_a_neighbour_slowed_are_blamed_on_no_graph() -> None:
    disturbed = [case for case in recorded_cases("h200-neighbours") if case.broken & DISTURBING]
    assert {case.row["workload"] for case in disturbed} == {"matmul", "copy", "cores", "server"}
    assert not any(map(is_told, disturbed))


@pytest.mark.parametrize(
    "change",
    [
        {"max_num_batched_tokens": 512},  # a step has no more tokens, whatever the prompt
        {"prefix_cache_hit_ratio": 0.9},
        {"num_speculative_tokens": 3},
        {"card": json.dumps({"send_crowding": 2.0})},  # prompts come in waves
    ],
)
def test_where_steps_fit_a_graph_or_their_time_is_not_known_nothing_is_told(
    change: dict[str, object],
) -> None:
    slow = next(case for case in recorded_cases("h200-cuda-graphs") if is_told(case))
    assert not is_told(replace(slow, row={**slow.row, **change}))


@pytest.mark.parametrize("mode", [[2, 0], 0])
def test_where_steps_with_prompts_run_in_no_graph_their_size_is_not_blamed(mode: object) -> None:
    slow = next(case for case in recorded_cases("h200-cuda-graphs") if is_told(case))
    assert slow.launch and slow.launch.server_info
    info = copy.deepcopy(slow.launch.server_info)
    info["vllm_config"]["compilation_config"]["cudagraph_mode"] = mode
    assert not is_told(replace(slow, launch=slow.launch.model_copy(update={"server_info": info})))
