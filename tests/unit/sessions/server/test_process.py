"""A server's end is told in plain words, from its log."""

from servetune.sessions.server.process import explain

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
