"""A server's end is told in plain words, from its log."""

from servetune.sessions.server.causes import explain

KV_CACHE = """
(EngineCore pid=9) INFO 11-21 00:26:33 [kv_cache_utils.py:1] GPU KV cache size: 524,288 tokens
(EngineCore pid=9) ERROR 11-21 00:26:33 [core.py:9] Traceback (most recent call last):
(EngineCore pid=9) ERROR 11-21 00:26:33 [core.py:9] ValueError: To serve at least one request \
with the model's max seq len (10000000), (19.07 GiB KV cache is needed)
(APIServer pid=7) Traceback (most recent call last):
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above.
""".splitlines()

PYDANTIC = """
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (99999) is greater than the derived max_model_len \
[type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.12/v/value_error
""".splitlines()


ASSERTED = [
    "(APIServer pid=7) WARNING 11-25 19:50:17 [system_utils.py:299] This can cause errors like"
    " `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n",
    "/root/inductor_cache/c7l.py:39: unknown: block: [8376,0,0], thread: [0,0,0] Assertion"
    " `index out of bounds: 0 <= tmp10 < 2048` failed.",
    "(EngineCore pid=9) ERROR 11-25 19:51:24 [core.py:1332] torch.AcceleratorError: CUDA error:"
    " device-side assert triggered",
    "(APIServer pid=7) ERROR 11-25 19:51:24 [async_llm.py:704]"
    " vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    "(APIServer pid=7) RuntimeError: Engine core process EngineCore died unexpectedly.",
]


def test_the_root_cause_is_told_and_not_what_followed_from_it() -> None:
    told = explain(KV_CACHE)
    assert told is not None
    assert told.startswith("ValueError: To serve at least one request with the model's max seq len")


def test_a_refused_argument_is_told_in_the_words_of_the_refusal() -> None:
    assert explain(PYDANTIC) == (
        "User-specified max_model_len (99999) is greater than the derived max_model_len"
    )


def test_a_log_without_an_error_explains_nothing() -> None:
    assert explain(["INFO: started", "INFO: stopped"]) is None


def test_an_assertion_on_the_device_is_told_and_not_that_the_engine_died_of_it() -> None:
    assert explain(ASSERTED) == (
        "torch.AcceleratorError: CUDA error: device-side assert triggered"
        " (index out of bounds: 0 <= tmp10 < 2048)"
    )


def test_what_is_warned_of_is_not_what_ended_a_server() -> None:
    assert explain(ASSERTED[:1]) is None
