from servetune.telemetry import difference, read_metrics

PAGE = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:num_preemptions_total{engine="1",model_name="m"} 5.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 4.0
# TYPE something_else gauge
something_else 1.0
"""


def test_metrics_are_read_by_our_names_and_summed_over_engines() -> None:
    assert read_metrics(PAGE) == {
        "requests_running": 3.0,
        "preemptions": 7.0,
        "accepted_tokens_at_0": 9.0,
        "accepted_tokens_at_1": 4.0,
    }


def test_a_metric_that_the_server_lacks_is_absent() -> None:
    assert read_metrics("") == {}


def test_growth_is_told_only_of_counters_seen_at_both_ends() -> None:
    assert difference({"a": 1.0, "b": 2.0}, {"a": 4.0, "c": 1.0}) == {"a": 3.0}
