"""A server's end is told in plain words, from its log."""

import sys
from pathlib import Path

import pytest

from servetune.engines.endings import LONGEST
from servetune.engines.vllm.causes import explain
from servetune.engines.vllm.dialect import DIALECT as VLLM
from servetune.serving.server import Server
from servetune.serving.target import ServerError
from tests.standin.serving import PATIENCE_S, PYTHON, write_model

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


def test_what_an_argument_parser_refuses_is_told_with_the_argument_and_what_is_wrong() -> None:
    refused = """
usage: vllm serve [model_tag] [options]
main.py serve: error: argument --compilation-config/-cc: 1 validation error for CompilationConfig
  Invalid JSON: key must be a string at line 1 column 2 [type=json_invalid, input_value='{mode: 3}']
    For further information visit https://errors.pydantic.dev/2.14/v/json_invalid
""".splitlines()
    assert explain(refused, 2) == (
        "argument --compilation-config/-cc: 1 validation error for CompilationConfig:"
        " Invalid JSON: key must be a string at line 1 column 2"
    )
    unknown = ["vllm serve: error: unrecognized arguments: --bogus 1"]
    assert explain(unknown, 2) == "unrecognized arguments: --bogus 1"


CPP = """
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: an illegal memory access was encountered
""".splitlines()
RUST = """
thread 'tokio-runtime-worker' (4411) panicked at src/http.rs:88:14:
called `Result::unwrap()` on an `Err` value: AddrInUse
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
""".splitlines()


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (CPP, "CUDA error: an illegal memory access was encountered"),
        (CPP[:2], "c10::Error"),
        (RUST, "src/http.rs:88:14: called `Result::unwrap()` on an `Err` value: AddrInUse"),
        (["thread 'main' panicked at 'no room', src/a.rs:1:2"], "'no room', src/a.rs:1:2"),
        (["free(): invalid pointer"], "free(): invalid pointer"),
        (["Fatal Python error: Segmentation fault"], "Segmentation fault"),
    ],
)
def test_the_last_words_of_code_that_is_not_python_are_told(log: list[str], cause: str) -> None:
    followed = "RuntimeError: Engine core initialization failed. Failed core proc(s): {'E': -6}"
    assert explain([*log, followed], 1) == cause


@pytest.mark.parametrize(
    "log",
    [
        "RuntimeError: Engine core initialization failed. See root cause above."
        " Failed core proc(s): {'EngineCore_DP0': -9}",
        "RuntimeError: Process EngineCore_DP0 (PID: 412) died with exit code -9",
        "(EngineCore pid=9) ERROR 11-21 00:26:33 [multiproc_executor.py:316] Worker proc"
        " EngineCore_DP0 died unexpectedly (exit code: -9), shutting down executor.",
    ],
)
def test_a_part_that_was_killed_is_told_with_what_kills(log: str) -> None:
    told = explain([log, "RuntimeError: Connection closed by peer"], 1)
    assert told is not None
    assert told.startswith("EngineCore_DP0 was killed by signal 9 (SIGKILL): probably")
    assert "out of memory" in told


def test_an_end_that_no_line_explains_is_told_by_its_signal_or_exit_code() -> None:
    assert explain(["INFO: started"], 3) == "ended with exit code 3"
    assert explain(["INFO: started"], 139) == "killed by signal 11 (SIGSEGV)"
    assert explain(CPP, 134) == f"{explain(CPP)}; killed by signal 6 (SIGABRT)"
    assert "instructions that the processor does not have" in str(explain([], 132))


def test_the_last_error_is_told_where_none_names_its_kind() -> None:
    line = "(APIServer pid=7) ERROR 11-21 00:26:33 [launcher.py:9] No room at the port."
    assert explain([line], 1) == "No room at the port."


def test_a_cause_is_one_line_of_bounded_length() -> None:
    told = explain([f"ValueError: \x1b[31m{'x' * 5000}"])
    assert told is not None
    assert told.isprintable() and len(told) <= LONGEST + 3


def why_not_started(tmp_path: Path, *arguments: str) -> str:
    """Why the stand-in, a real process, did not start."""
    server = Server(
        dialect=VLLM,
        python=PYTHON,
        model=str(write_model(tmp_path)),
        arguments=list(arguments),
        environment={"STANDIN_PYTHON": sys.executable},
        name="it",
        log=tmp_path / "server.log",
        folder=tmp_path,
    )
    server.start()
    try:
        with pytest.raises(ServerError) as raised:
            server.wait_ready(PATIENCE_S, lambda seconds: None)
    finally:
        server.stop()
    return str(raised.value).removeprefix("did not start: ")


def test_a_server_whose_arguments_are_refused_did_not_start_for_that(tmp_path: Path) -> None:
    told = why_not_started(tmp_path, "--compilation-config", "{mode: 3}")
    assert told.startswith("argument --compilation-config: ")
    assert "unrecognized arguments: --bogus" in why_not_started(tmp_path, "--bogus")


def test_a_server_that_is_killed_as_it_starts_is_told_to_lack_memory(tmp_path: Path) -> None:
    told = why_not_started(tmp_path, "--standin-fault", "killed")
    assert told.startswith("killed by signal 9 (SIGKILL): probably") and "out of memory" in told
