from servetune.tune.fit import GIB, SURE, Requests, most_rps, no_fit
from tests.unit.analysis.architectures import H200, LLAMA_8B


def test_weights_that_do_not_fit_are_refused_without_a_launch() -> None:
    refused = no_fit({}, LLAMA_8B, 16 * GIB)
    assert refused is not None and "15.0 GiB" in refused
    assert no_fit({"tensor_parallel_size": 2}, LLAMA_8B, 16 * GIB) is None


def test_a_kv_cache_that_does_not_hold_one_request_is_refused() -> None:
    server = {"max_model_len": 131_072, "gpu_memory_utilization": 0.9}
    assert no_fit(server, LLAMA_8B, 24 * GIB) is not None
    assert no_fit({**server, "kv_cache_dtype": "fp8"}, LLAMA_8B, 30 * GIB) is None


def test_what_is_not_known_refuses_nothing() -> None:
    assert no_fit({}, None, 16 * GIB) is None
    assert no_fit({}, LLAMA_8B, None) is None
    assert most_rps({"max_num_seqs": 1}, LLAMA_8B, None, Requests(512, 256)) is None


def test_few_sequences_bound_the_rate_by_the_weights_that_each_step_reads() -> None:
    requests = Requests(512, 256)
    one = most_rps({"max_num_seqs": 1}, LLAMA_8B, H200, requests)
    # 15.0 GB at 4,300 GB/s: 3.49 ms a token.
    assert one is not None and abs(one - SURE / (256 * 0.00349)) < 0.01
    copies = most_rps({"max_num_seqs": 1, "data_parallel_size": 2}, LLAMA_8B, H200, requests)
    assert copies == 2 * one
    assert most_rps({"max_num_seqs": 8}, LLAMA_8B, H200, requests) == 8 * one
    drafting = most_rps({"max_num_seqs": 1}, LLAMA_8B, H200, requests, is_speculative=True)
    assert drafting is not None and drafting > 100 * one
