"""What llama.cpp counts, under our names; what it does not count is absent."""

from servetune.engines.counters import GAUGES, difference
from servetune.engines.llama_cpp.metrics import FIGURES, read_metrics
from servetune.engines.vllm.metrics import FIGURES as OF_VLLM

PAGE = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 21
llamacpp:prompt_tokens_cached_total 10
llamacpp:prompt_seconds_total 0.005551
llamacpp:tokens_predicted_total 68
llamacpp:tokens_predicted_seconds_total 0.023639
llamacpp:n_tokens_max 45
llamacpp:prompt_tokens_seconds 3783.1
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
"""


def test_prompt_tokens_are_those_computed_and_those_found_in_a_slot() -> None:
    counters = read_metrics(PAGE)
    assert counters["prompt_tokens"] == counters["prefix_cache_queries"] == 31
    assert counters["prefix_cache_hits"] == 10
    assert counters["generation_tokens"] == 68
    assert counters["requests_running"] == 2
    assert counters["requests_waiting"] == 1


def test_what_llama_cpp_does_not_count_is_absent() -> None:
    counters = read_metrics(PAGE)
    assert not counters.keys() & {"requests_finished", "kv_cache_usage_ratio", "engine_steps"}
    # This page is of a version without speculative decoding.
    assert "draft_tokens" not in counters
    assert read_metrics("") == {}


def test_its_figures_have_the_names_that_vllms_have() -> None:
    assert FIGURES.keys() <= OF_VLLM.keys()
    assert FIGURES.keys() & {*GAUGES} == {"requests_running", "requests_waiting"}


def test_counters_of_a_load_are_what_grew() -> None:
    later = PAGE.replace("tokens_predicted_total 68", "tokens_predicted_total 100")
    grown = difference(read_metrics(PAGE), read_metrics(later))
    assert grown["generation_tokens"] == 32
    assert grown["prompt_tokens"] == 0
